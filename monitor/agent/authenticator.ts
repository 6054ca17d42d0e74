/**
 * Authenticates an agent by its token and bounds its requests (spec 6.5).
 *
 *     Authorization: Bearer … ─► SHA-256 ─► the agent of this hash ─► 120 a minute, 2 at once
 *                                              └─► none: 401; after 20 from an address in 10 minutes 429
 *
 * The token is checked first: a valid one is accepted whatever others send from its address, since an agent may share its
 * address with anybody behind the same NAT. A wrong token costs one hash of at most 256 bytes and one lookup, and counts
 * against the address: after 20 in 10 minutes the response is 429. A revoked token is unknown from the next snapshot on, about
 * 5 s later. A plain hash and a plain lookup suffice: tokens have 190 random bits.
 */
import { createHash } from 'node:crypto'
import { ApiError, retryAfter } from '../api/errors.ts'
import { WrongKeys } from '../api/wrong-keys.ts'
import type { StoredAgent } from '../storage/snapshot.ts'

export const REQUESTS_PER_MINUTE_MAX = 120 // an agent that sends a day's backlog makes 66
const IN_FLIGHT_MAX = 2 // of one agent; each holds up to 5 MiB
const MINUTE_MS = 60_000

interface AgentRequests {
  minute: number
  count: number // in this minute
  inFlightCount: number
}

export class AgentAuthenticator {
  wrongCount = 0
  private readonly wrong = new WrongKeys()
  private readonly requests = new Map<number, AgentRequests>() // by vantage; at most one per agent in the store
  private agents: readonly StoredAgent[] = [] // those of `byHash`
  private byHash = new Map<string, StoredAgent>()

  /** Throws ApiError. When it returns, `release` must follow. */
  authenticate(
    authorization: string,
    address: string,
    agents: readonly StoredAgent[],
    nowMs: number,
  ): StoredAgent {
    const nowSec = Math.floor(nowMs / 1_000)
    const agent = this.findAgent(authorization, agents)
    if (agent === null) {
      const untilSec = this.wrong.blockedUntilSec(address, nowSec)
      if (untilSec > 0)
        throw new ApiError(
          'rate_limited',
          'too many wrong tokens from this address',
          retryAfter(untilSec - nowSec),
        )
      this.wrong.add(address, nowSec)
      this.wrongCount++
      throw new ApiError('invalid_api_key', 'the token is not valid')
    }
    this.count(agent, nowMs)
    return agent
  }

  release({ vantageId }: StoredAgent): void {
    this.requests.get(vantageId)!.inFlightCount--
  }

  private count({ vantageId }: StoredAgent, nowMs: number): void {
    const minute = Math.floor(nowMs / MINUTE_MS)
    const requests = this.requests.get(vantageId) ?? { minute, count: 0, inFlightCount: 0 }
    this.requests.set(vantageId, requests)
    if (requests.minute !== minute) Object.assign(requests, { minute, count: 0 })
    if (requests.count >= REQUESTS_PER_MINUTE_MAX) {
      const waitSec = ((minute + 1) * MINUTE_MS - nowMs) / 1_000
      throw new ApiError('rate_limited', 'too many requests from this agent', retryAfter(waitSec))
    }
    requests.count++
    if (requests.inFlightCount >= IN_FLIGHT_MAX)
      throw new ApiError('too_many_pending', 'earlier requests from this agent are still in progress')
    requests.inFlightCount++
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
