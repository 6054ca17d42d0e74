/**
 * A worker thread: an engine with its store, and the gRPC and HTTP ports. This is the task of the serve pool.
 *
 *     start   store connects ─► engine gets rules ─► gRPC and HTTP listen ─► `ready`
 *     drain   stop listening ─► GOAWAY, `Connection: close` ─► running requests answered ─► store closes ─► task ends
 *
 * However the thread ends, its last statistics are sent and its uWebSockets.js app is closed (see uws.ts).
 */
import type { Socket } from 'node:net'
import type { MessagePort } from 'node:worker_threads'
import type { RulesImage } from '../engine/config/rules.ts'
import type { Engine } from '../engine/decision/engine.ts'
import { openEngine } from '../engine/open-engine.ts'
import { block } from '../engine/runtime/block.ts'
import type { HealthState } from '../engine/runtime/health.ts'
import { handleInspections } from '../engine/runtime/inspection/inspected-thread.ts'
import { type Diagnostic, workerThread } from '../engine/runtime/inspection/messages.ts'
import type { FromWorker, Log, PortTls, ServeTask, ToWorker } from '../engine/runtime/messages.ts'
import { rateLimitedLog } from '../engine/runtime/rate-limited-log.ts'
import { collectLater, collectWhenIdle } from '../engine/runtime/release-memory.ts'
import type { Settings } from '../engine/settings/parse.ts'
import { Stats } from '../engine/stats/stats.ts'
import type { CallMetrics, GrpcFrontend, GrpcFrontendOptions } from './grpc/frontend.ts'
import { HealthService } from './grpc/health.ts'
import { canSharePort, type Listener, listen } from './grpc/listener.ts'
import { createServices } from './grpc/services.ts'
import type { TlsAcceptor } from './grpc/tls-acceptor.ts'
import { HttpServer } from './http/server.ts'
import type { Tracing } from './tracing/open-tracing.ts'

const DROP_LINES_PER_SEC = 1 // for connections that could not be served, and for those refused

/** Piscina's entry: resolves when the worker has drained, rejects when it cannot start. */
export default async function serve(task: ServeTask): Promise<void> {
  try {
    await run(task)
  } finally {
    task.port.close() // posted messages still arrive; an open port would keep main from ending
  }
}

async function run(task: ServeTask): Promise<void> {
  const stats = new Stats()
  const send = (message: FromWorker) => task.port.postMessage(message)
  const sendStats = () => send({ kind: 'stats', deltas: stats.takeDeltas() })
  process.on('exit', sendStats) // also if the thread throws: a message posted here still arrives
  const log: Log = (level, message) => send({ kind: 'log', level, message })

  const early = new EarlyMessages(task.port)
  let opened: Awaited<ReturnType<typeof openEngine>>
  try {
    opened = await openEngine(task.settings, {
      memoryTable: task.memoryTable,
      decisionsStat: `sluice.worker.${task.index}.decisions`,
      stats,
      log,
      onHealth: (instances) => send({ kind: 'store', instances }),
      signal: early.drain,
    })
  } catch (error) {
    if (early.drain.aborted) return // nothing has been opened
    throw error
  }
  const { engine, store } = opened
  let rulesBytes = 0
  const setRules = ({ rules }: { rules: RulesImage }) => {
    engine.setRules(rules)
    collectLater(rulesBytes)
    rulesBytes = rules.memory.byteLength
  }
  if (task.rules) setRules({ rules: task.rules })
  const tracing = await openTracing(task.settings, log)
  const ports = await Ports.open(task, engine, tracing, stats, log)

  const drained = new Promise<number>((resolve) => {
    early.handOver((message) => {
      if (message.kind === 'rules') setRules(message)
      else if (message.kind === 'health') ports.setHealth(message.health)
      else if (message.kind === 'tls') ports.renew(message.tls)
      else if (message.kind === 'stats') sendStats()
      else if (message.kind === 'ping') send({ kind: 'pong' })
      else if (message.kind === 'ending') ports.beginShutdown()
      else if (message.kind === 'drain') resolve(message.timeoutMs)
      else if (process.env.NODE_ENV === 'test') provoke(message)
    })
  })
  // Ports close before the thread ends: node:http2 aborts the process if a thread ends while its sockets read.
  process.once('uncaughtException', (error) => {
    ports.close()
    setImmediate(() => {
      throw error
    })
  })
  handleInspections(workerThread(task.index), async () => [
    ...ports.diagnostics(),
    ...((await store.diagnostics?.()) ?? []),
  ])
  collectWhenIdle()
  send({ kind: 'ready' })
  await ports.drain(await drained)
  await store.close()
  await tracing?.close()
  process.off('exit', sendStats)
  sendStats()
}

/** What tests of faults ask a worker for. */
function provoke(message: Extract<ToWorker, { kind: 'crash' | 'stall' }>): void {
  if (message.kind === 'crash') throw new Error('crash requested')
  block(message.ms)
}

/** Messages from main that arrive while the store is opened. The last of each kind is kept; `ping` is answered, and `drain` aborts the opening. */
class EarlyMessages {
  private readonly port: MessagePort
  private readonly draining = new AbortController()
  private readonly kept = new Map<ToWorker['kind'], ToWorker>()
  private readonly keep = (message: ToWorker) => {
    if (message.kind === 'ping') {
      this.port.postMessage({ kind: 'pong' } satisfies FromWorker)
      return
    }
    this.kept.delete(message.kind) // re-inserted, so that the order is that of the last ones
    this.kept.set(message.kind, message)
    if (message.kind === 'drain') this.draining.abort()
  }

  constructor(port: MessagePort) {
    this.port = port
    port.on('message', this.keep)
  }

  get drain(): AbortSignal {
    return this.draining.signal
  }

  /** From now on `handle` gets every message, the kept ones first. */
  handOver(handle: (message: ToWorker) => void): void {
    this.port.off('message', this.keep)
    for (const message of this.kept.values()) handle(message)
    this.port.on('message', handle)
  }
}

/** The gRPC and HTTP ports of this thread. */
class Ports {
  private readonly health: HealthService
  private readonly frontend: GrpcFrontend
  private readonly listener: Listener | null // null = another worker has the socket
  private readonly tlsAcceptor: TlsAcceptor | null // null = no TLS
  private readonly http: HttpServer

  private constructor(
    health: HealthService,
    frontend: GrpcFrontend,
    listener: Listener | null,
    tlsAcceptor: TlsAcceptor | null,
    http: HttpServer,
  ) {
    this.health = health
    this.frontend = frontend
    this.listener = listener
    this.tlsAcceptor = tlsAcceptor
    this.http = http
  }

  static async open(
    task: ServeTask,
    engine: Engine,
    tracing: Tracing | null,
    stats: Stats,
    log: Log,
  ): Promise<Ports> {
    const { settings } = task
    const health = new HealthService(task.health.isHealthy)
    const { methods, streams } = createServices(tracing?.grpcLimiter(engine) ?? engine, health, log)
    const frontend = await createFrontend(settings, {
      methods: tracing?.methods(methods) ?? methods,
      streams,
      headers: tracing?.headers ?? [],
      connectionAgeMs: settings.GRPC_MAX_CONNECTION_AGE,
      connectionAgeGraceMs: settings.GRPC_MAX_CONNECTION_AGE_GRACE,
      getMetrics: (method) => createCallMetrics(method, stats),
    })
    const tlsAcceptor = await openTlsAcceptor(task, frontend, log)
    const listener = await listenForGrpc(task, tlsAcceptor ?? frontend, log)
    const http = new HttpServer({
      host: settings.HOST,
      port: settings.PORT,
      bodyBytesMax: settings.HTTP_BODY_MAX_BYTES,
      limiter: tracing?.jsonLimiter(engine) ?? engine,
      health: task.health,
      log,
    })
    return new Ports(health, frontend, listener, tlsAcceptor, http)
  }

  setHealth(state: HealthState): void {
    this.health.isHealthy = state.isHealthy
    this.http.health = state
  }

  /** Replaces the certificate of the gRPC port. */
  renew(tls: PortTls): void {
    this.tlsAcceptor?.renew(tls)
  }

  /** For `/debug/threads`. */
  diagnostics(): Diagnostic[] {
    const { connections, calls } = this.frontend.load()
    const callsText = calls < 0 ? '' : `, ${calls} calls in flight`
    return [
      ['gRPC', `${connections} connections${callsText}`],
      ['HTTP', `${this.http.inFlight} requests in flight`],
    ]
  }

  beginShutdown(): void {
    this.http.beginShutdown()
  }

  async drain(timeoutMs: number): Promise<void> {
    this.listener?.stop()
    this.tlsAcceptor?.close()
    await Promise.all([this.frontend.drain(timeoutMs), this.http.drain(timeoutMs)])
  }

  /** Cuts everything now. */
  close(): void {
    this.listener?.stop()
    this.tlsAcceptor?.close()
    this.frontend.close()
    this.http.close()
  }
}

/** Loaded only with TRACING_ENABLED; otherwise the ports call the engine directly. */
async function openTracing(settings: Settings, log: Log): Promise<Tracing | null> {
  if (!settings.TRACING_ENABLED) return null
  return (await import('./tracing/open-tracing.ts')).openTracing(settings, log)
}

/** Loads only the selected frontend. */
async function createFrontend(settings: Settings, options: GrpcFrontendOptions): Promise<GrpcFrontend> {
  if (settings.GRPC_FRONTEND === 'grpc-js') return (await import('./grpc/grpc-js.ts')).grpcJsFrontend(options)
  return (await import('./grpc/http2/server.ts')).http2Frontend(options)
}

async function openTlsAcceptor(
  { tls }: ServeTask,
  frontend: GrpcFrontend,
  log: Log,
): Promise<TlsAcceptor | null> {
  if (tls === null) return null
  const { TlsAcceptor } = await import('./grpc/tls-acceptor.ts')
  const limited = (level: 'warning' | 'info') =>
    rateLimitedLog((why) => log(level, `a gRPC connection was refused: ${why}`), DROP_LINES_PER_SEC)
  const lines = { warning: limited('warning'), info: limited('info') }
  return new TlsAcceptor(tls, {
    onSocket: (socket) => frontend.accept(socket),
    onRefused: (level, why) => lines[level](why),
  })
}

/**
 * Counts and times calls (spec 7.4). Times are eighths of a millisecond in 32 bits: small integers, not allocated, whose
 * differences stay correct when they wrap, every six days.
 */
function createCallMetrics(method: string, stats: Stats): CallMetrics {
  const total = stats.counter(`ratelimit_server.${method}.total_requests`)
  const timer = stats.timer(`ratelimit_server.${method}.response_time`)
  return {
    onStart() {
      stats.add(total, 1)
      return (performance.now() * EIGHTHS) | 0
    },
    onEnd(startEighths) {
      timer.add(((((performance.now() * EIGHTHS) | 0) - startEighths) >>> 0) / EIGHTHS)
    },
  }
}
const EIGHTHS = 8

/** An address that cannot be shared belongs to worker 0; its replacement after a crash is worker 0 again. */
async function listenForGrpc(
  { index, settings: { GRPC_UDS: path, GRPC_HOST: host, GRPC_PORT: port } }: ServeTask,
  next: { accept(socket: Socket): void },
  log: Log,
): Promise<Listener | null> {
  if (index !== 0 && (path !== '' || !canSharePort)) return null
  return listen({
    ...(path !== '' ? { path } : { host, port }),
    onSocket: (socket) => next.accept(socket),
    onDrop: rateLimitedLog(
      (why) => log('warning', `a gRPC connection was not served: ${why}`),
      DROP_LINES_PER_SEC,
    ),
  })
}
