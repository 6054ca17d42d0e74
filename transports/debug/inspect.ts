/**
 * Measures all threads of the process for some time (messages: engine/runtime/inspection/messages.ts).
 *
 *     call ──► threads respond ──► each begins, in turn ── `ms`, or until the client disconnects ──► each ends, in turn
 *
 * A thread that does not respond within RESPONSE_MS_MAX is listed as missing.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { BroadcastChannel } from 'node:worker_threads'
import {
  type Findings,
  type InspectionRequest,
  type InspectionResponse,
  type Kind,
  REQUESTS_CHANNEL,
  responseChannelName,
} from '../../engine/runtime/inspection/messages.ts'

const RESPONSE_MS_MAX = 2_000 // a busy thread responds late, and encoding a profile takes 10 to 30 ms

export interface InspectOptions {
  threads: readonly string[] // required ones; others are included if they respond
  ms: number
  signal: AbortSignal
}

export interface Inspection<Found> {
  found: Map<string, Found> // by thread, sorted
  nativeIds: Map<string, number> // by thread
  missing: string[] // `thread: reason`
}

let inspectionsCount = 0

/** Null if `signal` ended it. */
export async function inspect<K extends Kind>(
  kind: K,
  { threads, ms, signal }: InspectOptions,
): Promise<Inspection<Findings[K]> | null> {
  const session = new InspectionSession<Findings[K]>(kind)
  try {
    await sleep(ms, undefined, { signal })
    return await session.end(threads, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    return null
  } finally {
    session.close()
  }
}

/** One measurement of all threads; begins on construction. */
class InspectionSession<Found> {
  private readonly id = String(++inspectionsCount)
  private readonly kind: Kind
  private readonly requests = new BroadcastChannel(REQUESTS_CHANNEL)
  private readonly responses = new BroadcastChannel(responseChannelName(this.id))
  private readonly nativeIds = new Map<string, number>() // of the threads that responded
  private readonly begun = new Set<string>()
  private readonly found = new Map<string, Found>()
  private readonly failures = new Map<string, string>() // thread → reason
  private turns: Promise<void> = Promise.resolve() // one thread at a time
  private awaited: { thread: string; onResponse: () => void } | null = null // whose turn it is

  constructor(kind: Kind) {
    this.kind = kind
    this.responses.onmessage = (event) => this.onResponse((event as { data: InspectionResponse }).data)
    this.send({ id: this.id, step: 'call' })
  }

  /** Threads in `threads` without a result are missing. */
  async end(threads: readonly string[], signal: AbortSignal): Promise<Inspection<Found>> {
    const { id, found, nativeIds, failures } = this
    await this.turns
    for (const thread of [...this.begun].sort(byName)) {
      signal.throwIfAborted()
      await this.turn({ id, step: 'end', thread })
    }
    const all = new Set([...threads, ...nativeIds.keys()])
    const missing = [...all].filter((thread) => !found.has(thread)).sort(byName)
    return {
      found,
      nativeIds,
      missing: missing.map((thread) => `${thread}: ${failures.get(thread) ?? 'no response'}`),
    }
  }

  close(): void {
    this.send({ id: this.id, step: 'cancel' }) // for threads that are still measuring
    this.requests.close()
    this.responses.close()
  }

  private onResponse(response: InspectionResponse): void {
    const { thread, step } = response
    if (step === 'here') {
      this.nativeIds.set(thread, response.nativeId)
      this.turns = this.turns.then(() => this.turn({ id: this.id, step: 'begin', thread, kind: this.kind }))
      return
    }
    if (step === 'begun') this.begun.add(thread)
    else if (step === 'ended') this.found.set(thread, response.found as Found)
    else this.failures.set(thread, response.why)
    if (this.awaited?.thread === thread) this.awaited.onResponse()
  }

  /** Sends a request to one thread and waits for its response, at most RESPONSE_MS_MAX. */
  private async turn(request: InspectionRequest & { thread: string }): Promise<void> {
    const { thread } = request
    const timer = new AbortController()
    const responded = new Promise<void>((resolve) => {
      this.awaited = { thread, onResponse: resolve }
    })
    this.send(request)
    await Promise.race([
      responded,
      sleep(RESPONSE_MS_MAX, undefined, { signal: timer.signal }).catch(() => {}),
    ])
    timer.abort()
    this.awaited = null
  }

  private send(request: InspectionRequest): void {
    this.requests.postMessage(request)
  }
}

function byName(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}
