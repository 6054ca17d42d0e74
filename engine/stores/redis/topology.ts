/**
 * One REDIS_URL: a server, the master that sentinels name, or a cluster (cluster.ts), behind one interface.
 *
 *     findNode('shop_a_0') ─► node      the keys of one node are sent in one write
 *     node replies MOVED   ─► send      the commands of that key alone, to the node that owns it now
 */
import type { StoreError } from '../../runtime/errors.ts'
import type { Log } from '../../runtime/messages.ts'
import type { Breakers } from '../breakers.ts'
import type { ConnectionMetrics } from '../connection-metrics.ts'
import { tlsTo } from '../tls.ts'
import { maskRedisUrl, parseRedisAddress } from './address.ts'
import { RedisNode } from './node.ts'
import type { RedisOptions } from './options.ts'
import type { Reply } from './resp.ts'
import { Sentinels } from './sentinel.ts'

/** Commands for one key, sent on their own and again after a redirection, as they were not run. */
export interface KeyCommand {
  readonly key: string
  readonly sentMs: number // when the callers began to wait
  isAsking: boolean // sent with ASKING: the key is being migrated to the node
  redirects: number
  /** The commands may depend on the node. */
  commands(node: RedisNode): readonly (string | number)[][]
  /** Called exactly once, with one reply per command or an error. */
  done(error: StoreError | null, replies: readonly Reply[]): void
}

export interface RedisTopology {
  readonly name: string // the URL, masked
  readonly isSingleNode: boolean // there is always exactly one node
  readonly isConnected: boolean
  readonly refusal: string | null // why any call would fail immediately; or null
  readonly isAnyIdle: boolean // a node takes calls and has none that waits for replies
  /** The node of the key; null = no known node owns it. */
  findNode(key: string): RedisNode | null
  /** Follows a redirection if `text`, an error of the node, is one: then the command was not run there. */
  redirected(keyCommand: KeyCommand, from: RedisNode, text: string): boolean
  send(keyCommand: KeyCommand, node: RedisNode | null): void
  /** Whether key commands may be sent to a node that refuses calls because it is new and still connecting. */
  isWaitingFor(node: RedisNode): boolean
  /** One attempt. After the first success, lost connections are restored automatically. */
  open(): Promise<void>
  /** Instead of `open`: connects in the background and retries until `close`. */
  keep(): void
  /** STORE_START_WAIT has passed: opens the circuit breakers of nodes that are not connected. */
  onStartTimedOut(): void
  close(): Promise<void>
}

export interface TopologyHooks {
  log: Log
  pool: ConnectionMetrics | null // null = no statistics
  breakers: Breakers
  onChange: () => void // of isConnected
}

/** A single Redis, or the master that sentinels name. */
export class RedisSingleNode implements RedisTopology {
  readonly name: string
  readonly isSingleNode = true
  private readonly node: RedisNode
  private readonly sentinels: Sentinels | null = null

  /** Throws a ConfigurationError for an invalid address. */
  constructor(options: RedisOptions, hooks: TopologyHooks) {
    const { type, url, auth, sentinelAuth = '', variable, timeoutMs } = options
    const tls = options.tls ? tlsTo(options.tls) : null
    this.name = maskRedisUrl(url)
    let locate: () => ReturnType<Sentinels['locate']>
    if (type === 'sentinel') {
      const { log } = hooks
      const sentinels = new Sentinels({ url, auth, sentinelAuth, variable, tls, timeoutMs, log })
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

  get isAnyIdle(): boolean {
    return this.node.isIdle
  }

  findNode(): RedisNode {
    return this.node
  }

  redirected(): boolean {
    return false
  }

  send(keyCommand: KeyCommand): void {
    this.node.request(keyCommand.commands(this.node), keyCommand.sentMs, (error, replies) =>
      keyCommand.done(error, replies),
    )
  }

  isWaitingFor(): boolean {
    return false
  }

  async open(): Promise<void> {
    await this.node.open()
    this.watchSentinels()
  }

  keep(): void {
    this.node.keep()
    this.watchSentinels()
  }

  onStartTimedOut(): void {
    this.node.onStartTimedOut()
  }

  private watchSentinels(): void {
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
