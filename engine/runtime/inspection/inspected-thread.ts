/**
 * The part of a thread that answers when an operator looks. Until then it costs nothing: a channel on which nobody speaks,
 * and no profiler is loaded.
 */
import { readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { BroadcastChannel } from 'node:worker_threads'
import {
  type Diagnostic,
  type InspectionRequest,
  type InspectionResponse,
  type Kind,
  REQUESTS_CHANNEL,
  responseChannelName,
} from './messages.ts'

/** A measurement under way. One of these is called, once. */
export interface Measurement<T = unknown> {
  end(): Promise<T>
  cancel(): void
}

/** What a thread can tell about itself when asked. */
export type GetDiagnostics = () => Promise<Diagnostic[]> | Diagnostic[]

/** From now on this thread takes part, under this name. `facts` are for its pulse. */
export function handleInspections(thread: string, facts: GetDiagnostics = () => []): void {
  const inspected = new InspectedThread(thread, facts)
  const channel = new BroadcastChannel(REQUESTS_CHANNEL)
  channel.onmessage = (event) => void inspected.onRequest((event as { data: InspectionRequest }).data)
  channel.unref() // a thread ends when its own work has ended
}

class InspectedThread {
  private readonly thread: string
  private readonly facts: GetDiagnostics
  private readonly running = new Map<string, Promise<Measurement>>() // as many as the debug port allows at once

  constructor(thread: string, facts: GetDiagnostics) {
    this.thread = thread
    this.facts = facts
  }

  /** Never rejects. */
  async onRequest(question: InspectionRequest): Promise<void> {
    const { thread } = this
    if ('thread' in question && question.thread !== thread) return
    const { id, step } = question
    try {
      if (step === 'call') send(id, { thread, step: 'here', nativeId: nativeThreadId() })
      else if (step === 'begin') await this.begin(id, question.kind)
      else if (step === 'end') send(id, { thread, step: 'ended', found: await this.end(id) })
      else (await this.take(id))?.cancel()
    } catch (error) {
      send(id, { thread, step: 'failed', why: (error as Error).message })
    }
  }

  private async begin(id: string, kind: Kind): Promise<void> {
    const looking = begin(kind, this.facts)
    this.running.set(id, looking)
    await looking
    send(id, { thread: this.thread, step: 'begun' })
  }

  private async end(id: string): Promise<unknown> {
    const looking = await this.take(id)
    if (looking === undefined) throw new Error('replaced meanwhile') // what bore this name then has died
    return looking.end()
  }

  private take(id: string): Promise<Measurement> | undefined {
    const looking = this.running.get(id)
    this.running.delete(id)
    return looking
  }
}

/** Only what was asked for is loaded. */
async function begin(kind: Kind, facts: GetDiagnostics): Promise<Measurement> {
  if (kind === 'pulse') return (await import('./thread-stats.ts')).startThreadStats(facts)
  const { beginCpu, beginHeap } = await import('./profilers.ts')
  return kind === 'cpu' ? beginCpu() : beginHeap()
}

function send(id: string, answer: InspectionResponse): void {
  const channel = new BroadcastChannel(responseChannelName(id))
  channel.postMessage(answer)
  channel.close()
}

/** The number that top -H and traces show; 0 where the system does not tell. */
function nativeThreadId(): number {
  try {
    return Number(basename(readlinkSync('/proc/thread-self')))
  } catch {
    return 0
  }
}
