/** The 20 ms that a quota may take (spec 4.2), with a store behind a socket of another thread, and a loop that stands still. */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { Worker } from 'node:worker_threads'
import { afterAll, beforeAll, expect, test } from 'vitest'
import type { DecisionCallback } from '../../../engine/decision/rate-limiter.ts'
import { type Quota, type QuotaEngine, type QuotaKind, Quotas } from '../../../monitor/api/quota.ts'
import { Code, Unit } from '../../../proto/ratelimit.ts'
import { standStill } from '../../helpers/stand-still.ts'

const STALL_MS = 200 // ten times the budget
const ECHO = `
  const { createServer } = require('node:net')
  const { parentPort } = require('node:worker_threads')
  const server = createServer((socket) => socket.on('data', (bytes) => socket.write(bytes)))
  server.listen(0, '127.0.0.1', () => parentPort.postMessage(server.address().port))
`
const limit = { requestsPerUnit: 10, unit: Unit.Minute }
const status = { code: Code.OverLimit, currentLimit: limit, limitRemaining: 0, resetSec: 60 }
const OVER = { overallCode: Code.OverLimit, statuses: [status] } as never

let echo: Worker
let store: Socket

beforeAll(async () => {
  echo = new Worker(ECHO, { eval: true })
  const [port] = await once(echo, 'message')
  store = connect(port, '127.0.0.1')
  await once(store, 'connect')
})
afterAll(async () => {
  store.destroy()
  await echo.terminate()
})

/** Its answer, which is that the limit is reached, comes when the socket has echoed a byte; `send` decides when that leaves. */
function createQuotas(send: (write: () => void) => void) {
  const limiter = {
    findLimit: () => limit,
    decide: (_request: unknown, caller: DecisionCallback) => {
      store.once('data', () => caller.onDecision(OVER))
      send(() => store.write('x'))
    },
  } as unknown as QuotaEngine
  const failures: QuotaKind[] = []
  const quotas = new Quotas({ limiter, nowSec: () => 0, onFailure: (kind) => failures.push(kind) })
  const take = () =>
    new Promise<Quota>((resolve) => quotas.take('read', { ip: '203.0.113.7', key: null }, resolve))
  return { take, failures }
}

// biome-ignore format: a table
const sends: [what: string, send: (write: () => void) => void][] = [
  ['the question has left before it',               (write) => write()],
  ['the question leaves at the end of the turn',    (write) => void setImmediate(write)],
]
for (const [what, send] of sends) {
  test(`4.2: a stalled event loop lets no request pass: ${what}`, async () => {
    const { take, failures } = createQuotas(send)
    const taken = take()
    standStill(STALL_MS)
    expect(await taken).toMatchObject({ isOver: true, hasFailed: false })
    expect(failures).toEqual([])
  })
}

test('4.2: nor does one that stalls turn after turn', async () => {
  const { take, failures } = createQuotas((write) => void setImmediate(write))
  let isTaken = false
  const taken = take().finally(() => {
    isTaken = true
  })
  while (!isTaken) {
    standStill(30)
    await turn()
  }
  expect(await taken).toMatchObject({ isOver: true, hasFailed: false })
  expect(failures).toEqual([])
})

test('4.2: when the store does not respond, reads pass, each after its own budget, and the failure is reported', async () => {
  const { take, failures } = createQuotas(() => {})
  const quotas = await Promise.all([take(), take()])
  quotas.push(await take())
  for (const quota of quotas) expect(quota).toMatchObject({ isOver: false, hasFailed: true, limit: 10 })
  expect(failures).toEqual(['read', 'read', 'read'])
  store.removeAllListeners('data')
})
