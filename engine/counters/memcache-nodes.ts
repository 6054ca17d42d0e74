/**
 * The nodes in use: the list of memcache-servers.ts with a connection each, kept while the list changes.
 *
 *     a:11211 b:11211 ──── the DNS says ────► b:11211 c:11211
 *                                             b keeps its connection, a finishes what waits and closes, c is opened
 */
import { type MemcacheAddress, MemcacheNode } from './memcache-node.ts'
import type { MemcacheOptions } from './memcache-options.ts'
import type { MemcacheReport } from './memcache-report.ts'
import { findServers, placeOf } from './memcache-servers.ts'

const TIMER_MS_MAX = 2 ** 31 - 1 // where Node's timers end
const RETRY_MS = 1_000 // while the DNS has not given any list

export const NO_SERVERS = 'memcache: no servers configured or available'

export class MemcacheNodes {
  private readonly options: MemcacheOptions
  private readonly report: MemcacheReport
  private readonly closing = new AbortController() // ends a question to the DNS
  private nodes: MemcacheNode[] = []
  private timer: NodeJS.Timeout | undefined

  constructor(options: MemcacheOptions, report: MemcacheReport) {
    this.options = options
    this.report = report
  }

  get count(): number {
    return this.nodes.length
  }

  /** Place of the node that has the key; there must be nodes. */
  placeOf(key: string): number {
    return placeOf(key, this.nodes.length)
  }

  at(place: number): MemcacheNode {
    return this.nodes[place]
  }

  /** Resolves when the list is known, or the DNS did not say; main has seen it answer. Waits for no connection. */
  async open(): Promise<void> {
    if (this.options.srv !== '') return this.refresh()
    await this.find()
    if (this.nodes.length === 0) this.report.tell('warning', NO_SERVERS)
  }

  /** No new list from now on. */
  freeze(): void {
    this.closing.abort()
    clearTimeout(this.timer)
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
      this.report.tell('warning', `failed to refresh memcache hosts: ${(error as Error).message}`)
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
  }

  private make(address: MemcacheAddress): MemcacheNode {
    const { tls, timeoutMs } = this.options
    const onLost = (reason: string) =>
      this.report.complain(address.text, () => `memcached at ${address.text} is not connected: ${reason}`)
    const node = new MemcacheNode({ address, tls, timeoutMs, onLost })
    node.open()
    return node
  }
}
