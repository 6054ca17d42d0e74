/**
 * A lane: one client that sends the same requests to both services, one after the other, in domains of its own.
 * Several lanes run at once, so the services see several connections while each lane's counters stay comparable.
 *
 *     request ──┬──► Sluice ─────┐
 *               └──► reference ──┴── same second? ──► compare ──► next, or the lane ends with its first difference
 *
 * Each service reads the clock itself. So a request is sent only well before the end of a second, and a lane whose
 * response arrives in another second is set aside for the rest of the round: its counters may differ.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { type ReceivedResponse, type SentRequest, ServiceClient } from './client.ts'
import { difference, knownDifference } from './differences.ts'
import type { Pair } from './pair.ts'
import type { Variant } from './variants.ts'

export interface Difference {
  what: string
  sent: SentRequest
  sluice: ReceivedResponse
  reference: ReceivedResponse
}

export interface LaneResult {
  sent: SentRequest[]
  descriptorsCount: number
  /** Why its counters cannot be compared: a known difference, or the clock; '' = they can. */
  setAside: string
  difference: Difference | null
}

const QUIET_MS = 180 // before the end of a second, no request is sent
const SHORTEST_START_SEC = 60 // in the first second of a minute, windows of second and minute share their keys (Q20)

export class Lane {
  private readonly sluice: ServiceClient
  private readonly reference: ServiceClient
  private readonly variant: Variant

  constructor(pair: Pair, variant: Variant) {
    this.variant = variant
    this.sluice = new ServiceClient(pair.sluice)
    this.reference = new ServiceClient(pair.reference)
  }

  close(): void {
    this.sluice.close()
    this.reference.close()
  }

  async run(requests: Iterable<SentRequest>): Promise<LaneResult> {
    const result: LaneResult = { sent: [], descriptorsCount: 0, setAside: '', difference: null }
    for (const sent of requests) {
      const second = await waitForSafeSecond()
      const [sluice, reference] = await Promise.all([this.sluice.send(sent), this.reference.send(sent)])
      if (Math.floor(Date.now() / 1000) !== second) {
        result.setAside = 'the second changed'
        return result
      }
      result.sent.push(sent)
      result.descriptorsCount += sent.request.descriptors.length
      const known = knownDifference(sent, sluice, reference, this.variant)
      const what = difference(sluice, reference)
      if (known) result.setAside = known.name
      else if (what !== '') result.difference = { what, sent, sluice, reference }
      if (known || what !== '') return result
    }
    return result
  }
}

/** Waits until enough of the current second is left. Returns that second. */
async function waitForSafeSecond(): Promise<number> {
  for (;;) {
    const nowMs = Date.now()
    const second = Math.floor(nowMs / 1000)
    const leftMs = 1000 - (nowMs % 1000)
    if (leftMs > QUIET_MS && second % SHORTEST_START_SEC !== 0) return second
    await sleep(leftMs + 2)
  }
}
