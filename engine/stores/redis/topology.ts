/**
 * One REDIS_URL: a server, the master that sentinels name, or a cluster (cluster.ts). Who counts does not see which.
 *
 *     nodeOf('shop_a_0') ─► node        many keys of one node travel in one write
 *     node says MOVED    ─► deliver     the key's commands, alone, to where they belong now
 */
import type { StoreError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/messages.ts'
import type { ConnectionMetrics } from '../connection-metrics.ts'
import { tlsTo } from '../tls.ts'
import { maskRedisUrl, parseRedisAddress } from './address.ts'
import { RedisNode } from './node.ts'
import type { RedisOptions } from './options.ts'
import type { Reply } from './resp.ts'
import { Sentinels } from './sentinel.ts'

/** Commands of one key on their own way: what was not run where it was sent first. */
export interface KeyCommand {
  readonly key: string
  readonly sentMs: number // when the callers began to wait
  isAsking: boolean // the node was named by one that is handing the key over to it
  redirects: number
  /** What to send; it may depend on the node. */
  commands(node: RedisNode): readonly (string | number)[][]
  /** Exactly once: with one reply per command, or an error. */
  done(error: StoreError | null, replies: readonly Reply[]): void
}

export interface RedisTopology {
  readonly name: string // the URL, masked
  readonly isSingleNode: boolean // there is one node, always
  readonly isConnected: boolean
  readonly refusal: string | null // why everything would fail at once; or null
  /** Who counts the key; null = nobody, for now. */
  findNode(key: string): RedisNode | null
  /** Whether a redirection was followed: `text`, an error of the node, says the errand was not run there. */
  redirected(errand: KeyCommand, from: RedisNode, text: string): boolean
  send(errand: KeyCommand, node: RedisNode | null): void
  /** Whether errands may be delivered to a node that refuses calls: it is only just being connected. */
  isWaitingFor(node: RedisNode): boolean
  /** One attempt; after the first success connections come back by themselves. */
  open(): Promise<void>
  close(): Promise<void>
}

/** What an instance tells, and whom. */
export interface TopologyHooks {
  log: Log
  pool: ConnectionMetrics | null // null: nobody counts
  onChange: () => void // of isConnected
}

/** A single Redis, or the master of a set that sentinels watch. */
export class RedisSingleNode implements RedisTopology {
  readonly name: string
  readonly isSingleNode = true
  private readonly node: RedisNode
  private readonly sentinels: Sentinels | null = null

  /** Throws an OperatorError when the options name no Redis. */
  constructor(options: RedisOptions, hooks: TopologyHooks) {
    const { type, url, auth, sentinelAuth = '', variable, timeoutMs } = options
    const tls = options.tls ? tlsTo(options.tls) : null
    this.name = maskRedisUrl(url)
    let locate: () => ReturnType<Sentinels['locate']>
    if (type === 'sentinel') {
      const sentinels = new Sentinels({ url, auth, sentinelAuth, variable, tls, timeoutMs })
      this.sentinels = sentinels
      locate = () => sentinels.locate()
    } else {
      const address = parseRedisAddress(options)
      locate = async () => address
    }
    this.node = new RedisNode({
      name: this.name,
      locate,
      tls,
      isMasterOnly: type === 'sentinel',
      timeoutMs,
      operationTimeoutMs: options.operationTimeoutMs,
      ...hooks,
    })
  }

  get isConnected(): boolean {
    return this.node.isConnected
  }

  get refusal(): string | null {
    return this.node.refusal
  }

  findNode(): RedisNode {
    return this.node
  }

  redirected(): boolean {
    return false
  }

  send(errand: KeyCommand): void {
    this.node.ask(errand.commands(this.node), errand.sentMs, (error, replies) => errand.done(error, replies))
  }

  isWaitingFor(): boolean {
    return false
  }

  async open(): Promise<void> {
    await this.node.open()
    this.sentinels?.watch(({ host, port }) => {
      const { address } = this.node
      if (address?.host === host && address.port === port) return
      this.node.move(`the sentinels name another master, ${host}:${port}`)
    })
  }

  async close(): Promise<void> {
    this.sentinels?.close()
    await this.node.close()
  }
}
