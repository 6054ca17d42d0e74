/**
 * Looks at all threads of the process, for a while (engine/runtime/inspection/messages.ts has the conversation).
 *
 *     call ──► who is here? ──► each begins, in turn ── so many ms, or until the client goes ──► each ends, in turn
 *
 * A thread that does not answer within ANSWER_MS is left out and named as missing.
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

const ANSWER_MS = 2_000 // a thread with much to do hears of it late, and writing down a profile takes 10 to 30 ms

export interface InspectOptions {
  threads: readonly string[] // that must be there; others may be
  ms: number
  signal: AbortSignal
}

export interface Inspection<Found> {
  found: Map<string, Found> // by thread, sorted
  nativeIds: Map<string, number> // by thread
  missing: string[] // each with the reason
}

let inspectionsCount = 0

/** Null when `signal` ended it. */
export async function inspect<K extends Kind>(
  kind: K,
  { threads, ms, signal }: InspectOptions,
): Promise<Inspection<Findings[K]> | null> {
  const talk = new InspectionSession<Findings[K]>(kind)
  try {
    await sleep(ms, undefined, { signal })
    return await talk.end(threads, signal)
  } catch (error) {
    if (!signal.aborted) throw error
    return null
  } finally {
    talk.close()
  }
}

/** One conversation with all threads. It begins when it is made. */
class InspectionSession<Found> {
  private readonly id = String(++inspectionsCount)
  private readonly kind: Kind
  private readonly questions = new BroadcastChannel(REQUESTS_CHANNEL)
  private readonly answers = new BroadcastChannel(responseChannelName(this.id))
  private readonly nativeIds = new Map<string, number>() // of those that are here
  private readonly begun = new Set<string>()
  private readonly found = new Map<string, Found>()
  private readonly failures = new Map<string, string>() // thread → why
  private turns: Promise<void> = Promise.resolve() // each waits for those before it
  private awaited: { thread: string; answered: () => void } | null = null // whose turn it is

  constructor(kind: Kind) {
    this.kind = kind
    this.answers.onmessage = (event) => this.onResponse((event as { data: InspectionResponse }).data)
    this.request({ id: this.id, step: 'call' })
  }

  /** Those of `threads` that have not found anything are missing. */
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
      missing: missing.map((thread) => `${thread}: ${failures.get(thread) ?? 'no answer'}`),
    }
  }

  close(): void {
    this.request({ id: this.id, step: 'cancel' }) // for those that have not ended
    this.questions.close()
    this.answers.close()
  }

  private onResponse(answer: InspectionResponse): void {
    const { thread, step } = answer
    if (step === 'here') {
      this.nativeIds.set(thread, answer.nativeId)
      this.turns = this.turns.then(() => this.turn({ id: this.id, step: 'begin', thread, kind: this.kind }))
      return
    }
    if (step === 'begun') this.begun.add(thread)
    else if (step === 'ended') this.found.set(thread, answer.found as Found)
    else this.failures.set(thread, answer.why)
    if (this.awaited?.thread === thread) this.awaited.answered()
  }

  /** Asks one thread, and waits until it has answered, but not for ever. */
  private async turn(question: InspectionRequest & { thread: string }): Promise<void> {
    const { thread } = question
    const late = new AbortController()
    const answered = new Promise<void>((resolve) => {
      this.awaited = { thread, answered: resolve }
    })
    this.request(question)
    await Promise.race([answered, sleep(ANSWER_MS, undefined, { signal: late.signal }).catch(() => {})])
    late.abort() // the timer
    this.awaited = null
  }

  private request(question: InspectionRequest): void {
    this.questions.postMessage(question)
  }
}

function byName(a: string, b: string): number {
  return a.localeCompare(b, 'en', { numeric: true })
}
