import { connect } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { commandText } from '../../engine/stores/redis/resp.ts'
import { eventually } from '../helpers/eventually.ts'
import type { RedisServer } from '../helpers/redis.ts'
import { startSharedRedis } from '../helpers/shared.ts'
import { type Fault, findEnd, type RespProxy, startRespProxy } from './resp-proxy.ts'

let redis: RedisServer

async function start(): Promise<RespProxy> {
  redis ??= await startSharedRedis()
  await redis.run('FLUSHALL')
  const proxy = await startRespProxy(redis.port)
  onTestFinished(() => proxy.stop())
  return proxy
}

/** Sends commands in one write. `pieces` are the chunks received. */
function send(proxy: RespProxy, ...commands: (string | number)[][]) {
  const socket = connect(proxy.port, '127.0.0.1')
  onTestFinished(() => void socket.destroy())
  const pieces: string[] = []
  const write = (...list: (string | number)[][]) => void socket.write(list.map(commandText).join(''))
  const state = { pieces, ended: '', text: () => pieces.join(''), send: write }
  socket.setEncoding('latin1').on('data', (piece: string) => pieces.push(piece))
  socket.on('error', (error: NodeJS.ErrnoException) => {
    state.ended = error.code ?? 'error'
  })
  socket.on('close', () => {
    state.ended ||= 'closed'
  })
  write(...commands)
  return state
}

const HIT = ['INCRBY', 'a', 2]
const LOADING = '-LOADING Redis is loading the dataset in memory\r\n'

test('passes commands and replies of every kind', async () => {
  const proxy = await start()
  const seen = send(proxy, HIT, ['GET', 'a'], ['GET', 'none'], ['EVAL', "return {1,{'x'},false}", 0], ['NO'])
  await eventually(() =>
    expect(seen.text()).toMatch(/^:2\r\n\$1\r\n2\r\n\$-1\r\n\*3\r\n:1\r\n\*1\r\n\$1\r\nx\r\n\$-1\r\n-ERR /),
  )
  expect(proxy.commandsCount).toBe(5)
})

// biome-ignore format: a table
const cases: [name: string, fault: Fault, replies: RegExp, count: string, hidden: number, ended: RegExp][] = [
  ['reply: not executed',      { reply: LOADING },               /^:2\r\n-LOADING.*\r\n:4\r\n$/, '4', 0, /^$/],
  ['replaced: executed',       { replaced: LOADING },            /^:2\r\n-LOADING.*\r\n:6\r\n$/, '6', 2, /^$/],
  ['cut within a reply',       { cutAfter: 2 },                  /^:2\r\n:4$/,                   '6', 0, /^closed$/],
  ['cut before a reply',       { cutAfter: 0 },                  /^:2\r\n$/,                     '6', 0, /^closed$/],
  ['reset within a reply',     { cutAfter: 1, isReset: true },   /^(:2\r\n:?)?$/,                '6', 0, /^(ECONNRESET|closed)$/],
  ['dropped with the rest',    { drop: true },                   /^(:2\r\n)?$/,                  '[02]?', 0, /^closed$/],
]
test.each(cases)('%s', async (_name, fault, replies, count, hidden, ended) => {
  const proxy = await start()
  proxy.decide = ({ number }) => (number === 1 ? fault : null)
  const seen = send(proxy, HIT, HIT, HIT)
  await eventually(() => {
    expect(seen.text()).toMatch(replies)
    expect(seen.ended).toMatch(ended)
  })
  await eventually(async () =>
    expect(String((await redis.run('GET', 'a')) ?? '')).toMatch(new RegExp(`^${count}$`)),
  )
  expect(proxy.hiddenHits).toBe(hidden)
})

test('splits replies at every byte position', async () => {
  const proxy = await start()
  proxy.isSplitting = true
  const seen = send(proxy, ['PING'])
  const wanted = [1, 2, 3, 4, 5, 6] // within +PONG\r\n
  const cuts = new Set<number>()
  for (let i = 1; !wanted.every((at) => cuts.has(at)); i++) {
    await eventually(() => expect(seen.text()).toBe('+PONG\r\n'.repeat(i)))
    for (const piece of seen.pieces) if (piece.startsWith('+')) cuts.add(piece.length) // the kernel may join some
    seen.send(['PING'])
  }
})

test('stalls and delays; Redis executes meanwhile', async () => {
  const proxy = await start()
  proxy.stall()
  const seen = send(proxy, HIT)
  await eventually(async () => expect(await redis.run('GET', 'a')).toBe('2'))
  expect(seen.text()).toBe('')
  proxy.resume()
  await eventually(() => expect(seen.text()).toBe(':2\r\n'))
  proxy.delayMs = 30
  const startMs = performance.now()
  const later = send(proxy, HIT)
  await eventually(() => expect(later.text()).toBe(':4\r\n'))
  expect(performance.now() - startMs).toBeGreaterThanOrEqual(30)
})

test('refuses and accepts again', async () => {
  const proxy = await start()
  const seen = send(proxy, HIT)
  await eventually(() => expect(seen.text()).toBe(':2\r\n'))
  await proxy.refuse()
  await eventually(() => expect(seen.ended).not.toBe(''))
  const refused = send(proxy, HIT)
  await eventually(() => expect(refused.ended).toBe('ECONNREFUSED'))
  await proxy.accept()
  const again = send(proxy, HIT)
  await eventually(() => expect(again.text()).toBe(':4\r\n'))
})

test('the end of a reply is found only when all of it is here', () => {
  for (const text of [
    ':1\r\n',
    '+OK\r\n',
    '$5\r\na\r\nbc\r\n',
    '$-1\r\n',
    '*0\r\n',
    '*-1\r\n',
    '*2\r\n$2\r\n\r\n\r\n*1\r\n:7\r\n',
  ]) {
    const bytes = Buffer.from(`${text}:9\r\n`)
    expect(findEnd(bytes, 0)).toBe(text.length)
    for (let end = 0; end < text.length; end++) expect(findEnd(bytes.subarray(0, end), 0)).toBe(-1)
  }
})
