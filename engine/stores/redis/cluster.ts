/**
 * A Redis Cluster: every key goes to the node that owns its hash slot (spec 9.4).
 *
 *     batch ──► its keys on node A, in one write ──► A ┐
 *           ──► its keys on node B               ──► B ┤ all nodes at the same time
 *           ──► its keys on node C               ──► C ┘
 *                     MOVED, ASK, TRYAGAIN ──► was not run: that key alone is sent again, REDIRECTS_MAX times and while the
 *                                              caller waits
 *
 * Commands have one key each, so nothing can span hash slots (CROSSSLOT) or be half done. Who owns what comes from CLUSTER
 * SLOTS: at the start, every REFRESH_MS, and soon after a MOVED or a lost node. What may have run is never sent again.
 */
import { StoreError } from '../../runtime/errors.ts'
import { errorText } from '../connect-retry.ts'
import { type TlsTo, tlsTo } from '../tls.ts'
import { maskRedisUrl, parseClusterSeeds, type RedisAddress } from './address.ts'
import { askForSlots } from './discovery.ts'
import { HASH_SLOTS, hashSlot, readClusterSlots, readRedirect, type SlotRange } from './hash-slots.ts'
import { RedisNode } from './node.ts'
import type { RedisOptions } from './options.ts'
import { ErrorReply } from './resp.ts'
import type { KeyCommand, RedisTopology, TopologyHooks } from './topology.ts'

const REFRESH_MS = 5_000 // as the reference
const REFRESH_SOON_MS = 100 // after a MOVED, and while a node is missing
const REDIRECTS_MAX = 16 // of one key's commands; beyond: error
const PAUSE_MS = 10 // before a key is sent again when nothing says where to, or the node is only just being connected
const NEW_NODE_MS_MAX = 500 // so long hits wait for a new node to be connected
const NODES_MAX = 1_000 // beyond: error. Redis' own recommendation for the size of a cluster
const UNUSED_MS_MAX = 15_000 // nodes that own nothing and were not asked for so long are left

export class RedisCluster implements RedisTopology {
  readonly name: string
  readonly isSingleNode = false
  private readonly options: RedisOptions
  private readonly hooks: TopologyHooks
  private readonly tls: TlsTo | null
  private readonly seeds: readonly RedisAddress[]
  private readonly nodes = new Map<string, RedisNode>() // by host:port
  private owners: (RedisNode | null)[] = new Array(HASH_SLOTS).fill(null) // by hash slot
  private masters = new Set<RedisNode>() // that own any
  private readonly stop = new AbortController() // ends the asking of seeds
  private refreshTimer: NodeJS.Timeout | undefined
  private refreshAtMs = 0
  private isRefreshing = false
  private isClosing = false

  /** Throws an OperatorError when the options name no Redis. */
  constructor(options: RedisOptions, hooks: TopologyHooks) {
    this.options = options
    this.hooks = hooks
    this.name = maskRedisUrl(options.url)
    this.tls = options.tls ? tlsTo(options.tls) : null
    this.seeds = parseClusterSeeds(options.url, options.auth, options.variable)
  }

  /** Whether every node that owns slots is connected. */
  get isConnected(): boolean {
    for (const node of this.masters) if (!node.isConnected) return false
    return this.masters.size > 0
  }

  get refusal(): string | null {
    if (this.masters.size === 0) return 'no connection (not connected yet)'
    for (const node of this.masters) if (node.refusal === null) return null
    return 'no connection to any node'
  }

  findNode(key: string): RedisNode | null {
    return this.owners[hashSlot(key)]
  }

  /** A new node of the cluster gets a moment; one that has been lost, or never came, fails its hits at once. */
  isWaitingFor(node: RedisNode): boolean {
    return !node.isConnected && !node.wasConnected && performance.now() - node.createdMs < NEW_NODE_MS_MAX
  }

  async open(): Promise<void> {
    try {
      this.install(await this.askSeeds())
      await Promise.all([...this.masters].map((node) => node.open()))
    } catch (error) {
      await this.leaveAll() // the next attempt starts from nothing
      throw error
    }
    this.refreshIn(REFRESH_MS)
  }

  async close(): Promise<void> {
    this.isClosing = true
    clearTimeout(this.refreshTimer)
    this.stop.abort()
    await this.leaveAll()
  }

  send(errand: KeyCommand, node: RedisNode | null): void {
    if (node === null) {
      this.fail(errand, `no node serves hash slot ${hashSlot(errand.key)}`)
      return
    }
    if (this.isWaitingFor(node) && !this.isLate(errand)) {
      setTimeout(() => this.send(errand, node), PAUSE_MS)
      return
    }
    const commands = errand.commands(node)
    node.cork() // errands come in swarms
    node.ask(errand.isAsking ? asking(commands) : commands, errand.sentMs, (error, all) => {
      const replies = errand.isAsking ? all.filter((_, i) => i % 2 === 1) : all
      const [first] = replies
      if (first instanceof ErrorReply && this.redirected(errand, node, first.text)) return
      errand.done(error, replies)
    })
  }

  redirected(errand: KeyCommand, from: RedisNode, text: string): boolean {
    if (text.startsWith('CLUSTERDOWN')) this.refreshSoon()
    if (!/^(MOVED|ASK|TRYAGAIN) /.test(text)) return false
    errand.redirects++
    if (this.isClosing || errand.redirects > REDIRECTS_MAX || this.isLate(errand)) this.fail(errand, text)
    else if (text.startsWith('TRYAGAIN')) setTimeout(() => this.send(errand, from), PAUSE_MS)
    else this.follow(errand, from, text)
    return true
  }

  /** The errand was not run. Sends it where the reply says. */
  private follow(errand: KeyCommand, from: RedisNode, text: string): void {
    const { redirects } = errand
    const { host, port } = readRedirect(text, from.address!.host)
    const node = this.nodeAt(host, port)
    errand.isAsking = text.startsWith('ASK')
    if (node === null) {
      this.fail(errand, `${text}: more than ${NODES_MAX} nodes`)
    } else if (errand.isAsking) {
      this.send(errand, node)
    } else {
      this.refreshSoon()
      this.owners[hashSlot(errand.key)] = node
      if (redirects <= 2) this.send(errand, node)
      else setTimeout(() => this.send(errand, node), PAUSE_MS * redirects) // nodes that do not agree yet
    }
  }

  private isLate(errand: KeyCommand): boolean {
    return performance.now() - errand.sentMs >= this.options.operationTimeoutMs
  }

  private fail(errand: KeyCommand, why: string): void {
    errand.done(new StoreError(`redis ${this.name}: ${why}; the hits were not counted`), [])
  }

  private nodeAt(host: string, port: number): RedisNode | null {
    const name = `${host}:${port}`
    const known = this.nodes.get(name)
    if (known) return known
    if (this.nodes.size >= NODES_MAX) return null
    const node = this.createNode(name, host, port)
    node.keep()
    return node
  }

  private createNode(name: string, host: string, port: number): RedisNode {
    const address = { ...this.seeds[0], path: '', host, port, family: 0 as const, masked: name }
    const node = new RedisNode({
      name,
      locate: async () => address,
      tls: this.tls,
      isMasterOnly: false, // a replica answers MOVED
      timeoutMs: this.options.timeoutMs,
      operationTimeoutMs: this.options.operationTimeoutMs,
      ...this.hooks,
      onChange: () => {
        if (!node.isConnected) this.refreshSoon()
        this.hooks.onChange()
      },
    })
    this.nodes.set(name, node)
    return node
  }

  // who owns what

  private refreshSoon(): void {
    this.refreshIn(REFRESH_SOON_MS)
  }

  /** The next refresh, in so many milliseconds or sooner. */
  private refreshIn(ms: number): void {
    const atMs = performance.now() + ms
    if (this.isClosing || (this.refreshTimer !== undefined && this.refreshAtMs <= atMs)) return
    clearTimeout(this.refreshTimer)
    this.refreshAtMs = atMs
    this.refreshTimer = setTimeout(() => void this.refresh(), ms)
  }

  private async refresh(): Promise<void> {
    this.refreshTimer = undefined
    if (this.isRefreshing) return
    this.isRefreshing = true
    try {
      const ranges = await this.askNodes()
      if (this.isClosing) return
      this.install(ranges)
      for (const node of this.masters) node.keep()
      this.leaveUnused()
    } catch {
      // nobody could say: the old picture stays
    } finally {
      this.isRefreshing = false
      this.refreshIn(this.isConnected ? REFRESH_MS : REFRESH_SOON_MS * (1 + Math.random()))
    }
    this.hooks.onChange()
  }

  private install(ranges: SlotRange[]): void {
    const owners: (RedisNode | null)[] = new Array(HASH_SLOTS).fill(null)
    const masters = new Set<RedisNode>()
    for (const { first, last, host, port } of ranges) {
      const name = `${host}:${port}`
      if (this.nodes.size >= NODES_MAX && !this.nodes.has(name)) continue
      const node = this.nodes.get(name) ?? this.createNode(name, host, port)
      masters.add(node)
      owners.fill(node, first, last + 1)
    }
    this.owners = owners
    this.masters = masters
  }

  /** From a node we are connected to, any of them; when there is none, from those in the settings. */
  private askNodes(): Promise<SlotRange[]> {
    const nodes = [...this.masters].filter((node) => node.refusal === null)
    if (nodes.length === 0) return this.askSeeds()
    const node = nodes[Math.floor(Math.random() * nodes.length)]
    return new Promise((resolve, reject) => {
      node.ask([['CLUSTER', 'SLOTS']], performance.now(), (error, [reply]) => {
        if (error) return reject(error)
        try {
          resolve(readClusterSlots(reply, node.address!.host))
        } catch (mistake) {
          reject(mistake)
        }
      })
    })
  }

  /** The first seed that answers is enough. */
  private async askSeeds(): Promise<SlotRange[]> {
    let why = ''
    for (const seed of this.seeds) {
      if (this.isClosing) break
      try {
        const { timeoutMs } = this.options
        return readClusterSlots(await askForSlots(seed, this.tls, timeoutMs, this.stop.signal), seed.host)
      } catch (error) {
        why = errorText(error)
      }
    }
    throw new Error(why)
  }

  private leaveUnused(): void {
    const sinceMs = performance.now() - UNUSED_MS_MAX
    for (const [name, node] of this.nodes) {
      if (this.masters.has(node) || node.lastUsedMs > sinceMs) continue
      this.nodes.delete(name)
      void node.close()
    }
  }

  private async leaveAll(): Promise<void> {
    const nodes = [...this.nodes.values()]
    this.nodes.clear()
    this.masters.clear()
    this.owners.fill(null)
    await Promise.all(nodes.map((node) => node.close()))
  }
}

/** ASKING holds for one command. */
function asking(commands: readonly (string | number)[][]): (string | number)[][] {
  return commands.flatMap((command) => [['ASKING'], command])
}
