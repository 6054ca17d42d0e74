/** What the monitor's thread does each second, and every few seconds. */
import type { Log } from '../../engine/runtime/messages.ts'
import type { ClientConnections } from '../api/client-connections.ts'
import type { DetectionQueue } from '../detections/detection-queue.ts'
import type { Store } from '../storage/store.ts'
import type { Agents } from './agents.ts'
import type { ProberSupervisor } from './prober-supervisor.ts'

const TICK_MS = 1_000
const SEEN_TICKS = 10 // between two records that this vantage probes
const FULL_TICKS = 60 // between two log lines about refused connections

export interface TickOptions {
  store: Pick<Store, 'tick' | 'write'>
  detections: Pick<DetectionQueue, 'tick'>
  startDetections: () => void
  vantageId: number | null // null = nothing is probed from here
  agents: Agents | null
  prober: Pick<ProberSupervisor, 'send'>
  connections: Pick<ClientConnections, 'allMax' | 'fullCount'>
  sendStats: () => void
  nowSec: () => number
  log: Log
}

export class Ticks {
  private readonly options: TickOptions
  private readonly interval: NodeJS.Timeout
  private count = 0
  private reportedFullCount = 0

  constructor(options: TickOptions) {
    this.options = options
    this.interval = setInterval(() => this.tick(), TICK_MS)
  }

  stop(): void {
    clearInterval(this.interval)
  }

  private tick(): void {
    const { store, detections, startDetections, sendStats, nowSec } = this.options
    void store.tick(nowSec())
    detections.tick()
    startDetections()
    if (this.count % SEEN_TICKS === 0) this.updateVantages()
    if (this.count % FULL_TICKS === 0) this.logFull()
    this.count++
    sendStats()
  }

  private updateVantages(): void {
    const { store, vantageId, agents, prober, nowSec } = this.options
    if (vantageId !== null) store.write({ kind: 'vantage-seen', vantageId, atSec: nowSec() })
    if (agents) prober.send(agents.turns())
  }

  private logFull(): void {
    const { connections, log } = this.options
    const count = connections.fullCount - this.reportedFullCount
    this.reportedFullCount = connections.fullCount
    if (count === 0) return
    const text = `the monitor has ${connections.allMax} connections, its maximum: ${count} more were closed`
    log('warning', text)
  }
}
