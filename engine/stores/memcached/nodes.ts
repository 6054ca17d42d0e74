/**
 * The nodes in use: the list of server-list.ts with a connection each, kept while the list changes.
 *
 *     a:11211 b:11211 ──── the DNS says ────► b:11211 c:11211
 *                                             b keeps its connection, a finishes what waits and closes, c is opened
 */

import type { Working } from '../store-health.ts'
import { type MemcacheAddress, MemcacheNode } from './node.ts'
import type { MemcacheOptions } from './options.ts'
import type { MemcacheReport } from './report.ts'
import { findServers, selectServer } from './server-list.ts'

const TIMER_MS_MAX = 2 ** 31 - 1 // where Node's timers end
const RETRY_MS = 1_000 // while the DNS has not given any list
const LOOK_MS = 1_000 // between two looks at nodes that fail or have lost their connection

export const NO_SERVERS = 'memcache: no servers configured or available'

export class MemcacheNodes {
  private readonly options: MemcacheOptions
  private readonly report: MemcacheReport
  private readonly closing = new AbortController() // ends a question to the DNS
  private nodes: MemcacheNode[] = []
  private timer: NodeJS.Timeout | undefined
  private lookTimer: NodeJS.Timeout | undefined
  private readonly onState: () => void

  /** `onState`: `working` may have changed. */
  constructor(options: MemcacheOptions, report: MemcacheReport, onState: () => void = () => {}) {
    this.options = options
    this.report = report
    this.onState = onState
  }

  get working(): Working {
    const failingCount = this.nodes.filter(({ isFailing }) => isFailing).length
    if (failingCount === this.nodes.length) return 'failing' // also when there are none
    return failingCount === 0 ? 'ok' : 'partly'
  }

  get count(): number {
    return this.nodes.length
  }

  /** Place of the node that has the key; there must be nodes. */
  getNodeIndex(key: string): number {
    return selectServer(key, this.nodes.length)
  }

  at(place: number): MemcacheNode {
    return this.nodes[place]
  }

  /** Resolves when the list is known, or the DNS did not say; main has seen it answer. Waits for no connection. */
  async open(): Promise<void> {
    if (this.options.srv !== '') return this.refresh()
    await this.find()
    if (this.nodes.length === 0) this.report.logSummary('warning', NO_SERVERS)
  }

  /** No new list from now on. */
  freeze(): void {
    this.closing.abort()
    clearTimeout(this.timer)
    clearTimeout(this.lookTimer)
  }

  close(): void {
    this.freeze()
    for (const node of this.nodes) node.close()
  }

  /** Asks the DNS, now and at every interval. */
  private async refresh(): Promise<void> {
    try {
      await this.find()
    } catch (error) {
      if (this.closing.signal.aborted) return
      this.report.logSummary('warning', `failed to refresh memcache hosts: ${(error as Error).message}`)
    }
    const waitMs = this.nodes.length === 0 ? RETRY_MS : this.options.srvRefreshMs
    if (waitMs === 0 || this.closing.signal.aborted) return
    this.timer = setTimeout(() => void this.refresh(), Math.min(waitMs, TIMER_MS_MAX))
  }

  private async find(): Promise<void> {
    const addresses = await findServers(this.options, this.closing.signal)
    if (this.closing.signal.aborted) return
    const known = new Map(this.nodes.map((node) => [node.address.text, node]))
    const nodes: MemcacheNode[] = []
    for (const address of addresses) {
      const node = known.get(address.text) ?? this.make(address)
      known.set(address.text, node)
      nodes.push(node)
    }
    for (const node of this.nodes) if (!nodes.includes(node)) node.retire()
    this.nodes = nodes
    this.onState()
  }

  /** A node that fails is asked again without callers, so that it is known when it works again. */
  private stateChanged(): void {
    this.onState()
    if (this.lookTimer !== undefined || this.closing.signal.aborted) return
    const uncertain = () => this.nodes.filter((node) => node.isFailing || !node.isConnected)
    if (uncertain().length === 0) return
    this.lookTimer = setTimeout(() => {
      this.lookTimer = undefined
      for (const node of uncertain()) node.look()
      this.stateChanged()
    }, LOOK_MS)
  }

  private make(address: MemcacheAddress): MemcacheNode {
    const { tls, timeoutMs } = this.options
    const onLost = (reason: string) =>
      this.report.logError(address.text, () => `memcached at ${address.text} is not connected: ${reason}`)
    const node = new MemcacheNode({ address, tls, timeoutMs, onLost, onState: () => this.stateChanged() })
    node.open()
    return node
  }
}
