/**
 * A Redis Cluster: every key goes to the node that owns its hash slot (spec 9.4).
 *
 *     batch ──► its keys on node A, in one write ──► A ┐
 *           ──► its keys on node B               ──► B ┤ in parallel
 *           ──► its keys on node C               ──► C ┘
 *                     MOVED, ASK, TRYAGAIN ──► not run: that key alone is sent again, at most REDIRECTS_MAX times and while
 *                                              the caller waits
 *
 * Each command has one key, so none spans hash slots (CROSSSLOT) or runs half. Slot owners come from CLUSTER SLOTS: at the
 * start, every REFRESH_MS, and soon after a MOVED or a lost node. Commands that may have run are never sent again.
 */
import { StoreError } from '../../runtime/errors.ts'
import { logOncePerMinute, rateLimitedLog } from '../../runtime/rate-limited-log.ts'
import { errorText } from '../connect-retry.ts'
import { type TlsTo, tlsTo } from '../tls.ts'
import { maskRedisUrl, parseClusterSeeds, type RedisAddress } from './address.ts'
import { fetchClusterSlots } from './discovery.ts'
import {
  HASH_SLOTS,
  hashSlot,
  MalformedSlots,
  readClusterSlots,
  readRedirect,
  type SlotRange,
} from './hash-slots.ts'
import { RedisNode } from './node.ts'
import type { RedisOptions } from './options.ts'
import { cutText, ErrorReply } from './resp.ts'
import type { KeyCommand, RedisTopology, TopologyHooks } from './topology.ts'

const REFRESH_MS = 5_000 // as envoyproxy/ratelimit
const REFRESH_SOON_MS = 100 // after a MOVED, and while a node is missing
const REDIRECTS_MAX = 16 // of one key command; beyond, it fails
const RETRY_MS = 10 // after TRYAGAIN, and while a new node is connecting
const NEW_NODE_MS_MAX = 500 // longest wait of hits for a new node to connect
const NODES_MAX = 1_000 // beyond, keys of further nodes fail. Redis recommends no larger clusters
const LOGGED_FAILURES_MAX = 8 // lines a minute about nodes that cannot be connected; the next one has the number of the others
const UNUSED_MS_MAX = 15_000 // nodes without slots and calls for this long are closed

export class RedisCluster implements RedisTopology {
  readonly name: string
  readonly isSingleNode = false
  private readonly options: RedisOptions
  private readonly hooks: TopologyHooks
  private readonly tls: TlsTo | null
  private readonly seeds: readonly RedisAddress[]
  private readonly nodes = new Map<string, RedisNode>() // by host:port
  private owners: (RedisNode | null)[] = new Array(HASH_SLOTS).fill(null) // by hash slot
  private masters = new Set<RedisNode>() // the nodes in `owners`
  private readonly stop = new AbortController() // cancels discovery
  private refreshTimer: NodeJS.Timeout | undefined
  private refreshAtMs = 0
  private isRefreshing = false
  private loggedReason = '' // why no owner of slots is known
  private isClosing = false
  private readonly logUnreachable: (line: string) => void // of all nodes together: redirections can name any number of them
  private readonly logMalformed: (line: string) => void

  /** Throws a ConfigurationError for an invalid address. */
  constructor(options: RedisOptions, hooks: TopologyHooks) {
    this.options = options
    this.hooks = hooks
    this.name = maskRedisUrl(options.url)
    this.tls = options.tls ? tlsTo(options.tls) : null
    this.seeds = parseClusterSeeds(options.url, options.auth, options.variable)
    const warn = (line: string) => hooks.log('warning', line)
    this.logUnreachable = rateLimitedLog(warn, LOGGED_FAILURES_MAX, 60_000)
    this.logMalformed = logOncePerMinute(warn)
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

  get isAnyIdle(): boolean {
    for (const node of this.masters) if (node.isIdle) return true
    return false
  }

  findNode(key: string): RedisNode | null {
    return this.owners[hashSlot(key)]
  }

  /** A new node has NEW_NODE_MS_MAX to connect; hits for a lost one fail immediately. */
  isWaitingFor(node: RedisNode): boolean {
    return !node.isConnected && !node.wasConnected && performance.now() - node.createdMs < NEW_NODE_MS_MAX
  }

  async open(): Promise<void> {
    try {
      this.install(await this.fetchSlotsFromSeeds())
      await Promise.all([...this.masters].map((node) => node.open()))
    } catch (error) {
      await this.closeNodes() // the next attempt starts from scratch
      throw error
    }
    this.scheduleRefresh(REFRESH_MS)
  }

  keep(): void {
    this.scheduleRefresh(0)
  }

  /** As long as no slot owner is known, there are no nodes and no circuit breakers: hits fail immediately. */
  onStartTimedOut(): void {
    for (const node of this.masters) node.onStartTimedOut()
  }

  async close(): Promise<void> {
    this.isClosing = true
    clearTimeout(this.refreshTimer)
    this.stop.abort()
    await this.closeNodes()
  }

  send(keyCommand: KeyCommand, node: RedisNode | null): void {
    if (node === null) {
      this.fail(keyCommand, `no node serves hash slot ${hashSlot(keyCommand.key)}`)
      return
    }
    if (this.isWaitingFor(node) && !this.isLate(keyCommand)) {
      setTimeout(() => this.send(keyCommand, node), RETRY_MS)
      return
    }
    const commands = keyCommand.commands(node)
    node.cork() // key commands come in bursts
    node.request(
      keyCommand.isAsking ? prefixAsking(commands) : commands,
      keyCommand.sentMs,
      (error, allReplies) => {
        const replies = keyCommand.isAsking ? allReplies.filter((_, i) => i % 2 === 1) : allReplies
        const [first] = replies
        if (first instanceof ErrorReply && this.redirected(keyCommand, node, first.text)) return
        keyCommand.done(error, replies)
      },
    )
  }

  redirected(keyCommand: KeyCommand, from: RedisNode, text: string): boolean {
    if (text.startsWith('CLUSTERDOWN')) this.refreshSoon()
    if (!/^(MOVED|ASK|TRYAGAIN) /.test(text)) return false
    keyCommand.redirects++
    if (this.isClosing || keyCommand.redirects > REDIRECTS_MAX || this.isLate(keyCommand))
      this.fail(keyCommand, text)
    else if (text.startsWith('TRYAGAIN')) setTimeout(() => this.send(keyCommand, from), RETRY_MS)
    else this.follow(keyCommand, from, text)
    return true
  }

  /** The command was not run. Sends it to the node that the reply names. */
  private follow(keyCommand: KeyCommand, from: RedisNode, text: string): void {
    const { redirects } = keyCommand
    const address = readRedirect(text, from.address!.host)
    if (address === null) {
      this.fail(keyCommand, `${from.name} names no address: ${text}`)
      return
    }
    const node = this.getOrCreateNode(address.host, address.port)
    keyCommand.isAsking = text.startsWith('ASK')
    if (node === null) {
      this.fail(keyCommand, `${text}: more than ${NODES_MAX} nodes`)
    } else if (keyCommand.isAsking) {
      this.send(keyCommand, node)
    } else {
      this.refreshSoon()
      this.owners[hashSlot(keyCommand.key)] = node
      if (redirects <= 2) this.send(keyCommand, node)
      else setTimeout(() => this.send(keyCommand, node), RETRY_MS * redirects) // the nodes disagree for now
    }
  }

  private isLate(keyCommand: KeyCommand): boolean {
    return performance.now() - keyCommand.sentMs >= this.options.operationTimeoutMs
  }

  private fail(keyCommand: KeyCommand, reason: string): void {
    keyCommand.done(new StoreError(`redis ${this.name}: ${reason}; the hits were not counted`), [])
  }

  private getOrCreateNode(host: string, port: number): RedisNode | null {
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
      isMasterOnly: false, // a replica replies MOVED
      isNamedWhenConnected: true,
      logUnreachable: this.logUnreachable,
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

  // slot owners

  private refreshSoon(): void {
    this.scheduleRefresh(REFRESH_SOON_MS)
  }

  /** Schedules the next refresh in `ms` or sooner. */
  private scheduleRefresh(ms: number): void {
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
      const ranges = await this.fetchSlots()
      if (this.isClosing) return
      this.install(ranges)
      for (const node of this.masters) node.keep()
      this.closeUnusedNodes()
    } catch (error) {
      // no node replied, or not with slots: the known owners stay
      if (error instanceof MalformedSlots)
        this.logMalformed(`Redis Cluster at ${this.name}: ${error.message}; the known owners of slots stay`)
      else if (this.masters.size === 0) this.logUnknownOwners(errorText(error))
    } finally {
      this.isRefreshing = false
      this.scheduleRefresh(this.isConnected ? REFRESH_MS : REFRESH_SOON_MS * (1 + Math.random()))
    }
    this.hooks.onChange()
  }

  /** Once per reason in a row. */
  private logUnknownOwners(reason: string): void {
    if (this.isClosing || reason === this.loggedReason) return
    this.loggedReason = reason
    this.hooks.log('warning', `Cannot discover the Redis Cluster at ${this.name}: ${reason}; retrying`)
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

  /** From any connected master; from the seeds if there is none. */
  private fetchSlots(): Promise<SlotRange[]> {
    const nodes = [...this.masters].filter((node) => node.refusal === null)
    if (nodes.length === 0) return this.fetchSlotsFromSeeds()
    const node = nodes[Math.floor(Math.random() * nodes.length)]
    return new Promise((resolve, reject) => {
      node.request([['CLUSTER', 'SLOTS']], performance.now(), (error, [reply]) => {
        if (error) return reject(error)
        try {
          resolve(readClusterSlots(reply, node.address!.host))
        } catch (readError) {
          reject(readError)
        }
      })
    })
  }

  /** From the first seed that replies. */
  private async fetchSlotsFromSeeds(): Promise<SlotRange[]> {
    let reason = ''
    for (const seed of this.seeds) {
      if (this.isClosing) break
      try {
        const { timeoutMs } = this.options
        return readClusterSlots(
          await fetchClusterSlots(seed, this.tls, timeoutMs, this.stop.signal),
          seed.host,
        )
      } catch (error) {
        reason = cutText(errorText(error))
      }
    }
    throw new Error(reason)
  }

  private closeUnusedNodes(): void {
    const sinceMs = performance.now() - UNUSED_MS_MAX
    for (const [name, node] of this.nodes) {
      if (this.masters.has(node) || node.lastUsedMs > sinceMs) continue
      this.nodes.delete(name)
      void node.close()
    }
  }

  private async closeNodes(): Promise<void> {
    const nodes = [...this.nodes.values()]
    this.nodes.clear()
    this.masters.clear()
    this.owners.fill(null)
    await Promise.all(nodes.map((node) => node.close()))
  }
}

/** ASKING applies to the next command only. */
function prefixAsking(commands: readonly (string | number)[][]): (string | number)[][] {
  return commands.flatMap((command) => [['ASKING'], command])
}
