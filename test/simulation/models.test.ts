/** The simulated servers reply as real ones do, byte for byte, to the commands that the stores send. */
import { createHash } from 'node:crypto'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { commandText } from '../../engine/stores/redis/resp.ts'
import { startMemcached } from '../helpers/memcached.ts'
import { startRedis } from '../helpers/redis.ts'
import { seed, size } from '../helpers/size.ts'
import { Executions } from './executions.ts'
import { MemcachedModel } from './memcached-model.ts'
import type { Protocol } from './network.ts'
import { Random } from './random.ts'
import { RedisModel } from './redis-model.ts'

const SCRIPT = readFileSync(new URL('../../engine/stores/redis/add-hits.lua', import.meta.url), 'utf8')
const SHA = createHash('sha1').update(SCRIPT).digest('hex')
const KEYS = ['a', 'b', 'c', 'd']
const ECHO = [commandText(['ECHO', 'the end']), /\$7\r\nthe end\r\n$/] as const
const VERSION = ['version\r\n', /VERSION .*\r\n$/] as const
const COUNT = size({ small: 300, full: 20_000 })

/** Sends the commands to both, and a last one to the real server, whose reply `end` matches. */
async function compare(
  port: number,
  model: Protocol,
  commands: readonly string[],
  [last, end]: readonly [command: string, end: RegExp],
): Promise<void> {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1')
  onTestFinished(() => void socket.destroy())
  let replies = ''
  socket.on('data', (text: string) => {
    replies += text
  })
  socket.write([...commands, last].join(''))
  while (!end.test(replies)) await once(socket, 'data')
  const inbox = { partial: Buffer.alloc(0) }
  const expected = commands.map((command) => model.read(inbox, Buffer.from(command)).toString('latin1'))
  const unique = /(?<=VALUE \S+ 0 \d+ )\d+/g // number of an item of memcached, which the store ignores
  expect(replies.replace(end, '').replaceAll(unique, '7')).toBe(expected.join(''))
}

/** A request batch for add-hits.lua. */
function drawScript(random: Random): (string | number)[] {
  const keys: string[] = []
  const hits: number[] = []
  const limits: number[] = []
  const ends: number[] = []
  for (let request = random.int(1, 3); request > 0; request--) {
    for (let i = random.int(1, 3); i > 0; i--) {
      keys.push(random.pick(KEYS))
      hits.push(random.int(0, 3), 600)
      limits.push(random.pick([0, 3, 10, 1_000]))
    }
    ends.push(keys.length)
  }
  const tolerated = keys.map(() => random.int(0, 1)).join('')
  return [keys.length, ...keys, ...hits, ...limits, tolerated, ...ends]
}

test('Redis', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const random = new Random(seed(), 'redis')
  const commands: (string | number)[][] = [
    ['EVALSHA', SHA, ...drawScript(random)],
    ['EVAL', SCRIPT, ...drawScript(random)],
  ]
  while (commands.length < COUNT) {
    const key = random.pick(KEYS)
    commands.push(
      random.pick<(string | number)[]>([
        ['PING'],
        ['INCRBY', key, random.int(0, 3)],
        ['EXPIRE', key, 600],
        ['GET', key],
        ['TTL', key],
        ['EVALSHA', SHA, ...drawScript(random)],
      ]),
    )
  }
  await redis.run('FLUSHALL')
  const model = new RedisModel(new Executions(), () => 0, random.next)
  await compare(redis.port, model, commands.map(commandText), ECHO)
})

test('Redis: without the right to EXPIRE, the script says that the hits were counted', async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  await redis.run('ACL', 'SETUSER', 'default', '-expire')
  const batch = ['EVAL', SCRIPT, 1, 'a', 1, 600, 10, '0', 1]
  const [text] = (await redis.run('EVAL', ...batch.slice(1))) as string[]
  const [prefix, error] = text.split(': ', 2)
  expect(prefix).toBe('EXPIRE')
  const model = new RedisModel(
    new Executions(),
    () => 0,
    () => 0,
  )
  model.failing = { text: error, commands: ['EXPIRE'], share: 1 }
  await redis.run('DEL', 'a')
  model.restart()
  await compare(redis.port, model, [commandText(batch), commandText(['GET', 'a'])], ECHO)
})

test('memcached', async () => {
  const memcached = await startMemcached()
  onTestFinished(() => memcached.stop())
  const random = new Random(seed(), 'memcached')
  const commands: string[] = []
  while (commands.length < COUNT) {
    const key = random.pick(KEYS)
    commands.push(
      random.pick([`incr ${key} ${random.int(0, 3)}\r\n`, `add ${key} 0 600 1\r\n${random.int(0, 3)}\r\n`]),
      `gets ${key} none ${key === 'a' ? 'b' : 'a'}\r\n`,
    )
  }
  const model = new MemcachedModel(new Executions(), () => 0, random.next)
  await compare(memcached.port, model, commands, VERSION)
})
