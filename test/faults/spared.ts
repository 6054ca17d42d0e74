/** Calls of their own beside the load, for what a fault must spare: counters of other nodes, connections of another worker. */
import { setTimeout as sleep } from 'node:timers/promises'
import { eventually } from '../helpers/eventually.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { DOMAIN } from './load.ts'
import type { Stage } from './scenario.ts'

const DAY_SEC = 86_400
const PROBES = 100 // counters
const ASKED = 2 // times each
const KEY = 'error-day'
const CLIENTS = 16 // so that each of two workers has some
const BUSY_LAG_MS = 20 // as in timing.ts: the other worker may have had no core either
const PAUSE_MS = 5
const SLACK_MS = 250 // as in timing.ts
const LAG_FACTOR = 3

/** Asks about counters that other nodes have, while one fails: each is counted, exactly. `isOther` gets the key of a counter. */
export async function checkOthers(
  { service, history, round }: Stage,
  isOther: (key: string) => boolean,
  read: (keys: readonly string[]) => Promise<readonly (number | null)[]>,
): Promise<void> {
  const client = new GrpcClient(service.address('gRPC'))
  const windowStartSec = Math.floor(Date.now() / 1_000 / DAY_SEC) * DAY_SEC
  const toCounter = (value: string) => `${DOMAIN}_${KEY}_${value}_${windowStartSec}`
  const values = Array.from({ length: 3 * PROBES }, (_, i) => `other-${round}-${i}`)
    .filter((value) => isOther(toCounter(value)))
    .slice(0, PROBES)
  for (let asked = 1; asked <= ASKED; asked++) {
    for (const value of values) {
      const answer = await client.ask(question(DOMAIN, { [KEY]: value })).catch((error: Error) => error)
      if (answer instanceof Error) {
        history.report('normal', null, `a counter of another node failed: ${answer.message}`)
        continue
      }
      const { responseHeadersToAdd, statuses } = answer
      const [{ currentLimit, limitRemaining }] = statuses
      const counted = currentLimit!.requestsPerUnit - limitRemaining
      if (responseHeadersToAdd.length > 0)
        history.report('normal', null, 'a counter of another node was answered by its policy')
      else if (counted !== asked)
        history.report('remaining', null, `a counter of another node is ${counted}, not ${asked}: ${value}`)
    }
  }
  client.close()
  const checkCounts = async () => {
    const counts = await read(values.map(toCounter))
    const wrong = counts.findIndex((count) => count !== ASKED)
    if (wrong >= 0)
      throw new Error(`a counter of another node is ${counts[wrong]}, not ${ASKED}: ${values[wrong]}`)
  }
  await eventually(checkCounts).catch((error: Error) => history.report('once', null, error.message)) // memcached adds after the answer
}

/** While one of two workers is stalled for `stallMs`: connections of the other one get their answers on time. */
export async function checkOtherWorker(stage: Stage, stallMs: number): Promise<void> {
  const { service, history, lagMs, waitedMs } = stage
  const startMs = performance.now()
  const clients = Array.from({ length: CLIENTS }, () => new GrpcClient(service.address('gRPC')))
  const ends = clients.map(async (client, i) => {
    const found = { answers: 0, slowestMs: 0, lateMs: 0 }
    while (performance.now() - startMs < stallMs) {
      const askedMs = performance.now()
      await client.ask(question(DOMAIN, { [KEY]: `spared-${i}` }))
      const nowMs = performance.now()
      found.answers++
      const delayMs = LAG_FACTOR * lagMs(askedMs, nowMs) + waitedMs(askedMs, nowMs)
      found.slowestMs = Math.max(found.slowestMs, nowMs - askedMs)
      found.lateMs = Math.max(found.lateMs, nowMs - askedMs - delayMs)
      await sleep(PAUSE_MS)
    }
    return found
  })
  const found = await Promise.all(ends)
  for (const client of clients) client.close()
  const running = found.filter(({ slowestMs }) => slowestMs < stallMs / 2)
  if (running.length === 0 && lagMs(startMs, performance.now()) < BUSY_LAG_MS)
    history.report('normal', null, `no connection of ${CLIENTS} is served while one worker stalls`)
  for (const { answers, lateMs } of running)
    if (lateMs > SLACK_MS)
      history.report(
        'deadline',
        null,
        `the other worker: one of ${answers} calls took ${Math.round(lateMs)} ms`,
      )
}
