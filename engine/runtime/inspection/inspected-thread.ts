/**
 * Handles inspection requests in a thread. Without requests it costs nothing: the channel is silent, and no profiler is
 * loaded.
 */
import { readlinkSync } from 'node:fs'
import { basename } from 'node:path'
import { BroadcastChannel } from 'node:worker_threads'
import type { GetDiagnostics, Measurement } from './measurement.ts'
import {
  type InspectionRequest,
  type InspectionResponse,
  type Kind,
  REQUESTS_CHANNEL,
  responseChannelName,
} from './messages.ts'

/** Makes this thread available for inspection under this name. */
export function handleInspections(thread: string, getDiagnostics: GetDiagnostics = () => []): void {
  const inspected = new InspectedThread(thread, getDiagnostics)
  const channel = new BroadcastChannel(REQUESTS_CHANNEL)
  channel.onmessage = (event) => void inspected.onRequest((event as { data: InspectionRequest }).data)
  channel.unref() // must not keep the thread alive
}

class InspectedThread {
  private readonly thread: string
  private readonly getDiagnostics: GetDiagnostics
  private readonly running = new Map<string, Promise<Measurement>>() // the debug port bounds their number

  constructor(thread: string, getDiagnostics: GetDiagnostics) {
    this.thread = thread
    this.getDiagnostics = getDiagnostics
  }

  /** Never rejects. */
  async onRequest(request: InspectionRequest): Promise<void> {
    const { thread } = this
    if ('thread' in request && request.thread !== thread) return
    const { id, step } = request
    try {
      if (step === 'call') send(id, { thread, step: 'here', nativeId: nativeThreadId() })
      else if (step === 'begin') await this.begin(id, request.kind)
      else if (step === 'end') send(id, { thread, step: 'ended', found: await this.end(id) })
      else (await this.take(id))?.cancel()
    } catch (error) {
      send(id, { thread, step: 'failed', why: (error as Error).message })
    }
  }

  private async begin(id: string, kind: Kind): Promise<void> {
    const measurement = begin(kind, this.getDiagnostics)
    this.running.set(id, measurement)
    await measurement
    send(id, { thread: this.thread, step: 'begun' })
  }

  private async end(id: string): Promise<unknown> {
    const measurement = await this.take(id)
    if (measurement === undefined) throw new Error('replaced meanwhile') // the thread of this name that began it has ended
    return measurement.end()
  }

  private take(id: string): Promise<Measurement> | undefined {
    const measurement = this.running.get(id)
    this.running.delete(id)
    return measurement
  }
}

/** Loads only the requested profiler. */
async function begin(kind: Kind, getDiagnostics: GetDiagnostics): Promise<Measurement> {
  if (kind === 'pulse') return (await import('./thread-stats.ts')).startThreadStats(getDiagnostics)
  const { beginCpu, beginHeap } = await import('./profilers.ts')
  return kind === 'cpu' ? beginCpu() : beginHeap()
}

function send(id: string, response: InspectionResponse): void {
  const channel = new BroadcastChannel(responseChannelName(id))
  channel.postMessage(response)
  channel.close()
}

/** The thread id that top -H and traces show; 0 if unknown. */
function nativeThreadId(): number {
  try {
    return Number(basename(readlinkSync('/proc/thread-self')))
  } catch {
    return 0
  }
}
