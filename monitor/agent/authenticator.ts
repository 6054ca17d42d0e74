/**
 * Which agent is calling, and whether it may now (spec 6.5).
 *
 *     Authorization: Bearer … ─► SHA-256 ─► compared with every agent's, in constant time ─► 120 a minute, 2 at once
 *
 * A token that is not taken counts against its address, 20 in 10 minutes as wrong API keys do. A revoked one is unknown as
 * soon as the next snapshot is there, some 5 s later. A plain hash is enough: tokens are 190 bits by chance.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import { ApiError, retryAfter } from '../api/errors.ts'
import { WrongKeys } from '../api/wrong-keys.ts'
import type { StoredAgent } from '../storage/snapshot.ts'

export const REQUESTS_PER_MINUTE_MAX = 120 // a day's backlog goes at 66 a minute
const UNDER_WAY_MAX = 2 // of one agent; each holds up to 5 MiB
const MINUTE_MS = 60_000

interface AddressRequests {
  minute: number
  count: number
  underWay: number
}

export class AgentAuthenticator {
  wrongCount = 0
  private readonly wrong = new WrongKeys()
  private readonly visits = new Map<number, AddressRequests>() // by vantage: as many as there are

  /** Throws ApiError. `leave` must follow. */
  enter(authorization: string, address: string, agents: readonly StoredAgent[], nowMs: number): StoredAgent {
    const nowSec = Math.floor(nowMs / 1_000)
    const untilSec = this.wrong.blockedUntilSec(address, nowSec)
    if (untilSec > 0)
      throw new ApiError('rate_limited', 'too many wrong tokens from here', retryAfter(untilSec - nowSec))
    const agent = findAgent(authorization, agents)
    if (agent === null) {
      this.wrong.add(address, nowSec)
      this.wrongCount++
      throw new ApiError('invalid_api_key', 'the token is not that of an agent')
    }
    this.count(agent, nowMs)
    return agent
  }

  leave({ vantageId }: StoredAgent): void {
    this.visits.get(vantageId)!.underWay--
  }

  private count({ vantageId }: StoredAgent, nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    const visits = this.visits.get(vantageId) ?? { minute, count: 0, underWay: 0 }
    this.visits.set(vantageId, visits)
    if (visits.minute !== minute) Object.assign(visits, { minute, count: 0 })
    if (visits.count >= REQUESTS_PER_MINUTE_MAX) {
      const waitSec = ((minute + 1) * MINUTE_MS - nowMs) / 1_000
      throw new ApiError('rate_limited', 'too many requests of this agent', retryAfter(waitSec))
    }
    visits.count++
    if (visits.underWay >= UNDER_WAY_MAX)
      throw new ApiError('too_many_pending', 'earlier requests of this agent are still under way')
    visits.underWay++
  }
}

/** Every one is compared, found or not. */
function findAgent(authorization: string, agents: readonly StoredAgent[]): StoredAgent | null {
  const token = /^Bearer ([\x21-\x7e]{1,256})$/i.exec(authorization)?.[1]
  if (token === undefined) return null
  const hash = createHash('sha256').update(token).digest()
  let found: StoredAgent | null = null
  for (const agent of agents) {
    const known = Buffer.from(agent.tokenHash, 'hex')
    if (known.length === hash.length && timingSafeEqual(known, hash)) found = agent
  }
  return found
}
