/**
 * What does a round trip to Redis cost per key, by the size of the batch? One batch in flight, a Redis of its own.
 *   floor  PING by ioredis: a round trip without keys
 *   known  counters that are cached (hot keys): INCRBY alone
 *   met    keys that exist, but are new to this thread: INCRBY and EXPIRE
 *   new    keys whose first hit this is: INCRBY and EXPIRE
 * CPU is user and system time, of this process and of Redis (INFO). Wall is the time a request waits.
 */
import { Batch } from '../engine/stores/batch.ts'
import { Counter } from '../engine/stores/counter.ts'
import { RedisStore } from '../engine/stores/redis/redis-store.ts'
import { startRedis } from '../test/helpers/redis.ts'
import { size } from './size.ts'

const NOW_SEC = Math.floor(Date.now() / 1000)
const keysCount = size({ small: 300, full: 40_000 })
const cachedCount = 256
const cached = Array.from({ length: cachedCount }, (_, i) => new Counter(`known_${i}`))

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
for (const slots of [1, 8, 32, cachedCount]) {
  const batch = new Batch()
  for (const kind of ['known', 'met', 'new'] as const) {
    await row(kind, slots, async (turn) => {
      batch.clear()
      for (let i = 0; i < slots; i++) {
        const key = kind === 'new' ? `new_${slots}_${turn}_${i}` : `known_${i}`
        batch.add(kind === 'known' ? cached[i] : new Counter(key), 1, 9, NOW_SEC + 60, 100, false)
      }
      await new Promise((resolve) => store.add(batch, NOW_SEC, resolve))
      if (batch.getError(0)) throw batch.getError(0)
    })
  }
}
await store.close()
await redis.stop()

async function row(
  name: string,
  slots: number,
  roundTrip: (turn: number) => Promise<unknown>,
): Promise<void> {
  const turns = Math.ceil(keysCount / slots)
  for (let turn = 0; turn < turns / 4; turn++) await roundTrip(-1 - turn) // warm-up
  const redisStartUs = await redisCpuUs()
  const [cpu, startMs] = [process.cpuUsage(), performance.now()]
  for (let turn = 0; turn < turns; turn++) await roundTrip(turn)
  const wallUs = ((performance.now() - startMs) * 1_000) / (turns * slots)
  const { user, system } = process.cpuUsage(cpu)
  const cpuUs = (user + system) / (turns * slots)
  const redisUs = ((await redisCpuUs()) - redisStartUs) / (turns * slots)
  const label = `${name.padEnd(6)}${slots} a batch`.padEnd(20)
  const [own, redisUsed, wall] = [cpuUs, redisUs, wallUs].map((us) => us.toFixed(2).padStart(7))
  console.log(`redis   ${label}${own} us CPU ${redisUsed} us Redis ${wall} us wall, per key`)
}

async function redisCpuUs(): Promise<number> {
  const info = await redis.client.info('cpu')
  const parseCpuSeconds = (name: string) => Number(new RegExp(`${name}:([\\d.]+)`).exec(info)?.[1])
  return (parseCpuSeconds('used_cpu_user') + parseCpuSeconds('used_cpu_sys')) * 1e6
}
