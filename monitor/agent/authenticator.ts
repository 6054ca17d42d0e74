/**
 * Which agent is calling, and whether it may now (spec 6.5).
 *
 *     Authorization: Bearer … ─► SHA-256 ─► the agent of this hash ─► 120 a minute, 2 at once
 *                                              └─► none: 401; after 20 from an address in 10 minutes 429
 *
 * The token is checked first: a valid one is accepted whatever others send from its address, since agents may share one
 * with anybody behind the same NAT. A wrong one costs one hash of at most 256 bytes and one look-up, blocked or not. A
 * revoked one is unknown as soon as the next snapshot is there, some 5 s later. A plain hash is enough, and so is a plain
 * look-up by it: tokens are 190 random bits, so no timing of a hash leads to one.
 */
import { createHash } from 'node:crypto'
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
  private agents: readonly StoredAgent[] = [] // those of `byHash`
  private byHash = new Map<string, StoredAgent>()
  private readonly visits = new Map<number, AddressRequests>() // by vantage: as many as there are

  /** Throws ApiError. `leave` must follow. */
  enter(authorization: string, address: string, agents: readonly StoredAgent[], nowMs: number): StoredAgent {
    const nowSec = Math.floor(nowMs / 1_000)
    const agent = this.findAgent(authorization, agents)
    if (agent === null) {
      const untilSec = this.wrong.blockedUntilSec(address, nowSec)
      if (untilSec > 0)
        throw new ApiError('rate_limited', 'too many wrong tokens from here', retryAfter(untilSec - nowSec))
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

  private findAgent(authorization: string, agents: readonly StoredAgent[]): StoredAgent | null {
    const token = /^Bearer ([\x21-\x7e]{1,256})$/i.exec(authorization)?.[1]
    if (token === undefined) return null
    if (agents !== this.agents) {
      this.agents = agents
      this.byHash = new Map(agents.map((agent) => [agent.tokenHash, agent]))
    }
    return this.byHash.get(createHash('sha256').update(token).digest('hex')) ?? null
  }
}
