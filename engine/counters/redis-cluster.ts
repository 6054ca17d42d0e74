/**
 * A Redis Cluster: every call goes to the node that owns its hash slot (spec 9.4).
 *
 *     batch ──► one call per hash slot ──► node A ┐ all nodes at the same time; what goes to one node in one turn leaves
 *                                     ├──► node B ┤ in one write
 *                                     └──► node C ┘
 *               MOVED, ASK, TRYAGAIN ──► was not run: sent again, alone, REDIRECTS_MAX times and while the caller waits
 *
 * A script must not span hash slots, even on one node (CROSSSLOT), and what fails in the middle of a multi-key call can be
 * half done; so there is one call per slot, atomic on its own. Who owns what comes from CLUSTER SLOTS: at the start,
 * every REFRESH_MS, and soon after a MOVED or a lost node. Anything that may have run is never sent again.
 */
import { StoreError } from '../errors.ts'
import type { Log } from '../messages.ts'
import { maskRedisUrl, parseClusterSeeds, type RedisAddress } from './redis-address.ts'
import { RedisConnection } from './redis-connection.ts'
import { answerCall, type Call, type RedisInstance } from './redis-instance.ts'
import { isReply, RedisNode } from './redis-node.ts'
import type { RedisOptions } from './redis-options.ts'
import { HASH_SLOTS, hashSlot, readClusterSlots, readRedirect, type SlotRange } from './redis-slots.ts'
import { errorText } from './retry.ts'
import { type TlsTo, tlsTo } from './tls.ts'

const REFRESH_MS = 5_000 // as the reference
const REFRESH_SOON_MS = 100 // after a MOVED, and while a node is missing
const REDIRECTS_MAX = 16 // of one call; beyond: error
const PAUSE_MS = 10 // before a call is sent again when nothing says where to, or the node is only just being connected
const NEW_NODE_MS_MAX = 500 // so long hits wait for a new node to be connected
const NODES_MAX = 1_000 // beyond: error. Redis' own recommendation for the size of a cluster
const UNUSED_MS_MAX = 15_000 // nodes that own nothing and were not asked for so long are left

/** A call on its way, or a part of it. */
interface Errand {
  call: Call
  slots: readonly number[]
  isAsking: boolean
  redirects: number
}

export class RedisCluster implements RedisInstance {
  readonly name: string
  readonly isOnePlace = false
  private readonly options: RedisOptions
  private readonly log: Log
  private readonly onChange: () => void
  private readonly tls: TlsTo | null
  private readonly seeds: readonly RedisAddress[]
  private readonly nodes = new Map<string, RedisNode>() // by host:port
  private owners: (RedisNode | null)[] = new Array(HASH_SLOTS).fill(null) // by hash slot
  private masters = new Set<RedisNode>() // that own any
  private seedConnection: RedisConnection | null = null
  private refreshTimer: NodeJS.Timeout | undefined
  private refreshAtMs = 0
  private isRefreshing = false
  private isClosing = false

  /** Throws an OperatorError when the options name no Redis. */
  constructor(options: RedisOptions, log: Log, onChange: () => void) {
    this.options = options
    this.log = log
    this.onChange = onChange
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

  groupOf(key: string): number {
    return hashSlot(key)
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
    await this.seedConnection?.close()
    await this.leaveAll()
  }

  send(call: Call): void {
    this.deliver({ call, slots: call.slots, isAsking: false, redirects: 0 }, this.owners[call.group])
  }

  private deliver(errand: Errand, node: RedisNode | null): void {
    const { call, slots, isAsking } = errand
    if (node === null) {
      this.fail(errand, `no node serves hash slot ${call.group}`)
      return
    }
    if (isBeingConnected(node) && !this.isLate(call)) {
      setTimeout(() => this.deliver(errand, node), PAUSE_MS)
      return
    }
    node.call(call.command(slots), call.sentMs, isAsking, (error, value) => {
      if (isReply(error) && /^(MOVED|ASK|TRYAGAIN) /.test(error.message)) {
        this.redirect(errand, node, error.message)
      } else {
        if (isReply(error) && error.message.startsWith('CLUSTERDOWN')) this.refreshSoon()
        answerCall(nameOf(node), call, slots, error, value)
      }
    })
  }

  /** The errand was not run. Sends it where the reply says. */
  private redirect(errand: Errand, from: RedisNode, message: string): void {
    const { call, slots } = errand
    const redirects = errand.redirects + 1
    if (this.isClosing || redirects > REDIRECTS_MAX || this.isLate(call)) {
      this.fail(errand, message)
      return
    }
    if (message.startsWith('TRYAGAIN')) {
      // several keys of a slot that is moving, some here and some there: each alone is in one place
      for (const part of slots.length > 1 ? alone(slots) : [slots]) {
        const again = { call, slots: part, isAsking: errand.isAsking, redirects }
        setTimeout(() => this.deliver(again, from), PAUSE_MS)
      }
      return
    }
    const { host, port } = readRedirect(message, from.address!.host)
    const node = this.nodeAt(host, port)
    if (node === null) {
      this.fail(errand, `${message}: more than ${NODES_MAX} nodes`)
      return
    }
    if (message.startsWith('ASK')) {
      for (const part of alone(slots)) this.deliver({ call, slots: part, isAsking: true, redirects }, node)
      return
    }
    this.refreshSoon()
    this.owners[call.group] = node
    const again = { call, slots, isAsking: false, redirects }
    if (redirects <= 2) this.deliver(again, node)
    else setTimeout(() => this.deliver(again, node), PAUSE_MS * redirects) // nodes that do not agree yet
  }

  private isLate(call: Call): boolean {
    return performance.now() - call.sentMs >= this.options.operationTimeoutMs
  }

  private fail({ call, slots }: Errand, why: string): void {
    call.answered(slots, new StoreError(`redis ${this.name}: ${why}; the hits were not counted`), [])
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
      log: this.log,
      onChange: () => {
        if (!node.isConnected) this.refreshSoon()
        this.onChange()
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
    this.onChange()
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
      node.call({ name: 'cluster', args: ['SLOTS'] }, performance.now(), false, (error, reply) => {
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
        return await this.askSeed(seed)
      } catch (error) {
        why = errorText(error)
      }
    }
    throw new Error(why)
  }

  /** CLUSTER SLOTS over a connection of its own. */
  private async askSeed(seed: RedisAddress): Promise<SlotRange[]> {
    const { timeoutMs } = this.options
    const connection = new RedisConnection({
      locate: async () => seed,
      tls: this.tls,
      isMasterOnly: false,
      timeoutMs,
      script: '',
      onConnected: () => {},
      onLost: () => {},
    })
    this.seedConnection = connection
    try {
      await connection.open()
      return readClusterSlots(await connection.ask('cluster', ['SLOTS'], timeoutMs), seed.host)
    } finally {
      await connection.close()
    }
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

/** A new node of the cluster gets a moment; one that has been lost, or never came, fails its hits at once. */
function isBeingConnected(node: RedisNode): boolean {
  return !node.isConnected && !node.wasConnected && performance.now() - node.createdMs < NEW_NODE_MS_MAX
}

function alone(slots: readonly number[]): number[][] {
  return slots.map((slot) => [slot])
}

function nameOf(node: RedisNode): string {
  return node.address?.masked ?? ''
}
