/**
 * The nodes in use: the list of server-list.ts with one connection each, kept while the list changes.
 *
 *     a:11211 b:11211 ──── new DNS records ────► b:11211 c:11211
 *                                                b keeps its connection, a completes its commands and closes, c is opened
 */

import { Breakers, NO_BREAKER } from '../breakers.ts'
import { goDuration } from '../connect-retry.ts'
import type { Working } from '../store-health.ts'
import { type MemcacheAddress, MemcacheNode } from './node.ts'
import type { MemcacheOptions } from './options.ts'
import type { MemcacheReport } from './report.ts'
import { findServers, selectServer } from './server-list.ts'

const TIMER_MS_MAX = 2 ** 31 - 1 // the longest timer of Node
const RETRY_MS = 1_000 // while the DNS has returned no list
const PROBE_INTERVAL_MS = 1_000 // of nodes that fail or are not connected

export const NO_SERVERS = 'memcache: no servers configured or available'

export class MemcacheNodes {
  private readonly options: MemcacheOptions
  private readonly report: MemcacheReport
  private readonly closing = new AbortController() // cancels a DNS query
  private nodes: MemcacheNode[] = []
  private timer: NodeJS.Timeout | undefined
  private probeTimer: NodeJS.Timeout | undefined
  private readonly onState: () => void
  readonly breakers: Breakers

  /** `onState`: `working` may have changed. */
  constructor(options: MemcacheOptions, report: MemcacheReport, onState: () => void = () => {}) {
    this.options = options
    this.report = report
    this.onState = onState
    this.breakers = new Breakers(options.breaker ?? NO_BREAKER, report.stats, onState)
  }

  get working(): Working {
    const failingCount = this.nodes.filter(({ isFailing }) => isFailing).length
    if (failingCount === this.nodes.length) return 'failing' // also when there are none
    return failingCount === 0 ? 'ok' : 'partly'
  }

  get count(): number {
    return this.nodes.length
  }

  get isAnyIdle(): boolean {
    return this.nodes.some(({ isIdle }) => isIdle)
  }

  get areAllBreakersOpen(): boolean {
    return this.nodes.every(({ isBreakerOpen }) => isBreakerOpen)
  }

  /** Index of the node that has the key. There must be nodes. */
  getNodeIndex(key: string): number {
    return selectServer(key, this.nodes.length)
  }

  at(index: number): MemcacheNode {
    return this.nodes[index]
  }

  /** Resolves when the list is known or the DNS query failed; main has checked it. Does not wait for connections. */
  async open(): Promise<void> {
    if (this.options.srv !== '') return this.refresh()
    await this.updateNodes() // without any, main has logged which settings are missing (settings/store.ts)
  }

  /** Stops updates of the list. */
  freeze(): void {
    this.closing.abort()
    clearTimeout(this.timer)
    clearTimeout(this.probeTimer)
  }

  close(): void {
    this.freeze()
    for (const node of this.nodes) node.close()
  }

  /** Queries the DNS now and at every interval. */
  private async refresh(): Promise<void> {
    try {
      await this.updateNodes()
    } catch (error) {
      if (this.closing.signal.aborted) return
      this.report.logSummary('warning', `failed to refresh memcache hosts: ${(error as Error).message}`)
    }
    const waitMs = this.nodes.length === 0 ? RETRY_MS : this.options.srvRefreshMs
    if (waitMs === 0 || this.closing.signal.aborted) return
    this.timer = setTimeout(() => void this.refresh(), Math.min(waitMs, TIMER_MS_MAX))
  }

  private async updateNodes(): Promise<void> {
    const addresses = await findServers(this.options, this.closing.signal)
    if (this.closing.signal.aborted) return
    const known = new Map(this.nodes.map((node) => [node.address.text, node]))
    const nodes: MemcacheNode[] = []
    for (const address of addresses) {
      const node = known.get(address.text) ?? this.createNode(address)
      known.set(address.text, node)
      nodes.push(node)
    }
    for (const node of this.nodes) if (!nodes.includes(node)) node.retire()
    this.nodes = nodes
    this.onState()
  }

  /** Failing nodes are probed, so that their recovery is seen without traffic. */
  private onNodeState(): void {
    this.onState()
    if (this.probeTimer !== undefined || this.closing.signal.aborted) return
    const findUncertain = () => this.nodes.filter((node) => node.isFailing || !node.isConnected)
    if (findUncertain().length === 0) return
    this.probeTimer = setTimeout(() => {
      this.probeTimer = undefined
      for (const node of findUncertain()) node.probe()
      this.onNodeState()
    }, PROBE_INTERVAL_MS)
  }

  private createNode(address: MemcacheAddress): MemcacheNode {
    const { tls, timeoutMs } = this.options
    const onLost = (reason: string) =>
      this.report.logError(address.text, () => `memcached at ${address.text} is not connected: ${reason}`)
    const onBack = (afterMs: number) =>
      this.report.logSummary(
        'warning',
        `memcached at ${address.text} is connected again after ${goDuration(afterMs)}`,
      )
    const node = new MemcacheNode({
      ...{ address, tls, timeoutMs, onLost, onBack, breakers: this.breakers },
      onState: () => this.onNodeState(),
    })
    node.open()
    return node
  }
}
