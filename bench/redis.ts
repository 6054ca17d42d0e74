/**
 * What does a trip to Redis cost us per key, by the size of the batch? One batch in flight, a real Redis of its own.
 *   floor  PING: a trip that carries nothing
 *   known  keys that have their expiry already
 *   new    keys whose first hit this is
 * CPU is this thread's, user and system; wall is what a caller waits. Redis' own CPU is not in it.
 */
import { Batch, Counter } from '../engine/counters/batch.ts'
import { RedisStore } from '../engine/counters/redis.ts'
import { startRedis } from '../test/helpers/redis.ts'
import { size } from './size.ts'

const NOW_SEC = Math.floor(Date.now() / 1000)
const keysCount = size({ small: 300, full: 40_000 })

const redis = await startRedis()
const store = new RedisStore(
  {
    url: `127.0.0.1:${redis.port}`,
    socketType: 'tcp',
    auth: '',
    timeoutMs: 1_000,
    operationTimeoutMs: 1_000,
    startup: { initialMs: 100, maxMs: 100, maxElapsedMs: 1 },
  },
  { log: () => {} },
)
await store.connect()
await row('floor', 1, () => redis.client.ping())
for (const slots of [1, 8, 32, 256]) {
  const batch = new Batch()
  for (const kind of ['known', 'new'] as const) {
    await row(kind, slots, async (turn) => {
      batch.clear()
      for (let i = 0; i < slots; i++) {
        const key = kind === 'new' ? `new_${slots}_${turn}_${i}` : `known_${i}`
        batch.add(new Counter(key), 1, 9, NOW_SEC + 60, 100, false)
      }
      await new Promise((resolve) => store.add(batch, NOW_SEC, resolve))
      if (batch.errorOf(0)) throw batch.errorOf(0)
    })
  }
}
await store.close()
await redis.stop()

async function row(name: string, slots: number, trip: (turn: number) => Promise<unknown>): Promise<void> {
  const turns = Math.ceil(keysCount / slots)
  for (let turn = 0; turn < turns / 4; turn++) await trip(-1 - turn) // warm-up
  const [cpu, startMs] = [process.cpuUsage(), performance.now()]
  for (let turn = 0; turn < turns; turn++) await trip(turn)
  const wallUs = ((performance.now() - startMs) * 1_000) / (turns * slots)
  const { user, system } = process.cpuUsage(cpu)
  const cpuUs = (user + system) / (turns * slots)
  const label = `${name.padEnd(6)}${slots} a batch`.padEnd(28)
  console.log(
    `redis   ${label}${cpuUs.toFixed(2).padStart(9)} us CPU ${wallUs.toFixed(2).padStart(9)} us wall, per key`,
  )
}
