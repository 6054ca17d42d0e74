/**
 * One REDIS_URL: a server, the master that sentinels name, or a cluster (redis-cluster.ts). Who counts does not see which.
 *
 *     groupOf('shop_a_0') ─► 7        keys of one group may travel in one call
 *     send(call) ─► call.answered(slots, error, values)     once for every slot, maybe in several parts
 */
import { StoreError } from '../errors.ts'
import type { Log } from '../messages.ts'
import { maskRedisUrl, parseRedisAddress } from './redis-address.ts'
import { type Command, isReply, RedisNode } from './redis-node.ts'
import type { RedisOptions } from './redis-options.ts'
import { Sentinels } from './redis-sentinel.ts'
import { tlsTo } from './tls.ts'

/** Something to be done with counters of one group. */
export interface Call {
  group: number
  slots: readonly number[] // whose counters, in the batch
  sentMs: number // when the callers began to wait
  /** What is sent for some of the slots; its reply has one value per slot. */
  command(slots: readonly number[]): Command
  answered(slots: readonly number[], error: StoreError | null, values: readonly unknown[]): void
}

export interface RedisInstance {
  readonly name: string // the URL, masked
  readonly isOnePlace: boolean // there is one group
  readonly isConnected: boolean
  readonly refusal: string | null // why every call would fail at once; or null
  groupOf(key: string): number
  send(call: Call): void
  /** One attempt; after the first success connections come back by themselves. */
  open(): Promise<void>
  close(): Promise<void>
}

/** A single Redis, or the master of a set that sentinels watch. */
export class RedisServer implements RedisInstance {
  readonly name: string
  readonly isOnePlace = true
  private readonly node: RedisNode
  private readonly sentinels: Sentinels | null = null

  /** Throws an OperatorError when the options name no Redis. */
  constructor(options: RedisOptions, log: Log, onChange: () => void) {
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
      log,
      onChange,
    })
  }

  get isConnected(): boolean {
    return this.node.isConnected
  }

  get refusal(): string | null {
    return this.node.refusal
  }

  groupOf(): number {
    return 0
  }

  send(call: Call): void {
    const { slots } = call
    this.node.call(call.command(slots), call.sentMs, false, (error, value) => {
      answerCall(this.name, call, slots, error, value)
    })
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

/** Hands the reply of one command to the call. `name` is who gave it. */
export function answerCall(
  name: string,
  call: Call,
  slots: readonly number[],
  error: Error | null,
  value: unknown,
): void {
  const failed = (why: string) => call.answered(slots, new StoreError(`redis ${name}: ${why}`), [])
  if (error instanceof StoreError) call.answered(slots, error, [])
  else if (isReply(error)) failed(error.message)
  else if (Array.isArray(value) && value.length === slots.length) call.answered(slots, null, value)
  else failed('the reply is not one count per key')
}
