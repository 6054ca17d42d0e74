/**
 * `POST /json` with valid, nearly valid and random bodies, over pipelined connections, against the whole service: every
 * response is a specified one, and the right one for its body.
 */
import { expect, test } from 'vitest'
import { requestFromJson } from '../../proto/json.ts'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { bodyText } from '../../transports/http/body.ts'
import { seed, seeded, size } from '../helpers/size.ts'
import { BODY_BYTES_MAX, expectUnharmed, startFuzzed } from './fuzzed-service.ts'
import { mutated, randomRequestJson } from './json-bodies.ts'
import { type Exchange, sendPipelined } from './pipelined.ts'

const CONNECTIONS = 8
const bodies = size({ small: 5_000, full: 1_000_000 })

test(`6.2, 6.3: ${bodies} bodies for /json (seed ${seed()})`, async () => {
  const service = await startFuzzed()
  const random = seeded(seed())
  const counts: Record<number, number> = { 200: 0, 429: 0, 400: 0, 413: 0 }
  const nextBody = () => randomBody(random)
  const onExchange = (exchange: Exchange) => {
    check(exchange)
    counts[exchange.status]++
  }
  const port = Number(service.address('HTTP').split(':')[1])
  const runConnection = () => sendPipelined(port, bodies / CONNECTIONS, nextBody, onExchange)
  await Promise.all(Array.from({ length: CONNECTIONS }, runConnection))
  expect(Object.values(counts).reduce((sum, count) => sum + count)).toBe(bodies)
  for (const status of [200, 429, 400, 413])
    expect([status, counts[status] > bodies / 200]).toEqual([status, true])
  await expectUnharmed(service)
})

/** Half of them valid, the rest mutated as text; some of all mutated as bytes, or made too long. */
function randomBody(random: () => number): Buffer {
  const valid = randomRequestJson(random)
  const body = Buffer.from(random() < 0.5 ? valid : mutated(valid, random))
  const chance = random()
  if (chance < 0.05 && body.length > 0) body[Math.floor(random() * body.length)] = Math.floor(random() * 256)
  if (chance > 0.97)
    return Buffer.concat([body, Buffer.alloc(BODY_BYTES_MAX + 1 - Math.min(body.length, 1_000), 32)])
  return body
}

function check({ body, status, response }: Exchange): void {
  const problem = findProblem(body, status, response)
  if (problem) throw new Error(`${problem}: ${status} ${response}\nto ${JSON.stringify(body.toString())}`)
}

/** What is wrong with the response, or ''. Without `expect`, which takes minutes for a million bodies. */
function findProblem(body: Buffer, status: number, response: string): string {
  if (body.length > BODY_BYTES_MAX) return status === 413 ? '' : 'the status of a body that is too long'
  const request = parse(body)
  if (status === 400) return response === 'Bad Request\n' ? '' : 'the text of a 400'
  if (request === null) return 'accepted, but not a request'
  const { overallCode, statuses } = JSON.parse(response)
  if (status !== (overallCode === 'OK' ? 200 : 429)) return 'status'
  return statuses.length === request.descriptors.length ? '' : 'statuses'
}

/** null = not a valid request. */
function parse(body: Buffer): RateLimitRequest | null {
  try {
    return requestFromJson(bodyText(body))
  } catch {
    return null
  }
}
