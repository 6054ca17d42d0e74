/**
 * grpc.health.v1.Health: the worker's health, checked once or watched (spec 5.5).
 *
 *     service      Check, List                 Watch
 *     ratelimit    SERVING or NOT_SERVING      the same, then each change
 *     (empty)      SERVING, also after SIGTERM (Q11)
 *     others       NOT_FOUND                   SERVICE_UNKNOWN
 *
 * A watcher that does not read misses intermediate states, never the last one: nothing is queued for it. A drain ends
 * watches (Q16); by then they have received NOT_SERVING, since health fails first.
 */
import {
  decodeHealthCheckRequest,
  encodeHealthCheckResponse,
  encodeHealthListResponse,
  ServingStatus,
} from '../../proto/grpc/health.ts'
import type { StreamCall, StreamHandler, StreamMethod, UnaryMethod } from './frontend.ts'
import { Status } from './status.ts'

/** Concurrent watches of one worker; beyond: RESOURCE_EXHAUSTED. A change is written to all in one turn. */
export const WATCHERS_MAX = 1_000

const SERVICE = 'ratelimit'
const RESPONSES = Object.values(ServingStatus).map(encodeHealthCheckResponse) // by status

export class HealthService {
  readonly methods: readonly UnaryMethod[]
  readonly streams: readonly StreamMethod[]
  private readonly watchers = new Set<Watcher>()
  private isHealthyNow: boolean

  constructor(isHealthy: boolean) {
    this.isHealthyNow = isHealthy
    this.methods = [
      { path: '/grpc.health.v1.Health/Check', handle: (bytes, call) => this.onCheck(bytes, call) },
      { path: '/grpc.health.v1.Health/List', handle: (_bytes, call) => call.reply(this.encodeList()) },
    ]
    this.streams = [
      { path: '/grpc.health.v1.Health/Watch', open: (call) => new Watcher(call, this, this.watchers) },
    ]
  }

  get isHealthy(): boolean {
    return this.isHealthyNow
  }

  set isHealthy(isHealthy: boolean) {
    this.isHealthyNow = isHealthy
    for (const watcher of this.watchers) watcher.update()
  }

  getStatus(service: string): ServingStatus {
    if (service === '') return ServingStatus.Serving
    if (service !== SERVICE) return ServingStatus.ServiceUnknown
    return this.isHealthyNow ? ServingStatus.Serving : ServingStatus.NotServing
  }

  private onCheck(bytes: Uint8Array, call: Parameters<UnaryMethod['handle']>[1]): void {
    const service = decodeServiceName(bytes, call)
    if (service === null) return
    const status = this.getStatus(service)
    if (status === ServingStatus.ServiceUnknown) call.refuse(Status.NotFound, 'unknown service')
    else call.reply(RESPONSES[status])
  }

  private encodeList(): Uint8Array {
    return encodeHealthListResponse({ '': this.getStatus(''), [SERVICE]: this.getStatus(SERVICE) })
  }
}

class Watcher implements StreamHandler {
  private readonly call: StreamCall
  private readonly health: HealthService
  private readonly watchers: Set<Watcher>
  private service: string | null = null // null until the request has arrived
  private sentStatus: ServingStatus = ServingStatus.Unknown // a state that is never sent
  private canSend = true

  constructor(call: StreamCall, health: HealthService, watchers: Set<Watcher>) {
    this.call = call
    this.health = health
    this.watchers = watchers
  }

  message(bytes: Uint8Array): void {
    if (this.service !== null) {
      this.call.refuse(Status.Internal, 'Watch takes one request, and got another')
      return
    }
    this.service = decodeServiceName(bytes, this.call)
    if (this.service === null) return
    if (this.watchers.size >= WATCHERS_MAX) {
      this.call.refuse(Status.ResourceExhausted, `more than ${WATCHERS_MAX} watches are open`)
      return
    }
    this.watchers.add(this)
    this.update()
  }

  halfClosed(): void {
    if (this.service === null) this.call.refuse(Status.Internal, 'Watch takes one request, and got none')
  }

  writable(): void {
    this.canSend = true
    this.update()
  }

  closed(): void {
    this.watchers.delete(this)
  }

  /** Sends the state, unless it was sent last or the client does not read. */
  update(): void {
    if (!this.canSend || this.service === null) return
    const status = this.health.getStatus(this.service)
    if (status === this.sentStatus) return
    this.sentStatus = status
    this.canSend = this.call.send(RESPONSES[status])
  }
}

/** The requested service, or null after refusing a call with an invalid request. */
function decodeServiceName(bytes: Uint8Array, call: Pick<StreamCall, 'refuse'>): string | null {
  try {
    return decodeHealthCheckRequest(bytes)
  } catch (error) {
    call.refuse(Status.Internal, `the request is not a valid HealthCheckRequest: ${(error as Error).message}`)
    return null
  }
}
