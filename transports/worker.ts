/**
 * A worker thread: an engine with its store, and the two ports callers know. This is the task of the serve pool.
 *
 *     start   store connects ─► engine gets rules ─► gRPC and HTTP listen ─► `ready`
 *     drain   stop listening ─► GOAWAY, `Connection: close` ─► running requests answered ─► store closes ─► task ends
 *
 * Whatever ends the thread, its last statistics are sent and its uWebSockets.js app is closed (see uws.ts).
 */
import type { Socket } from 'node:net'
import { collectLater, collectWhenIdle } from '../engine/collect.ts'
import type { Engine } from '../engine/decide.ts'
import type { HealthState } from '../engine/health.ts'
import { answerInspections } from '../engine/inspection/thread.ts'
import { type Fact, workerThread } from '../engine/inspection/words.ts'
import type { FromWorker, Log, PortTls, ServeTask, ToWorker } from '../engine/messages.ts'
import { openEngine } from '../engine/open.ts'
import type { RulesImage } from '../engine/rules.ts'
import type { Settings } from '../engine/settings/parse.ts'
import { Stats } from '../engine/stats/stats.ts'
import type { CallMeter, GrpcFrontend, GrpcFrontendOptions } from './grpc/frontend.ts'
import { HealthService } from './grpc/health.ts'
import { canSharePort, type Listener, listen } from './grpc/listener.ts'
import { services } from './grpc/services.ts'
import type { TlsDoor } from './grpc/tls.ts'
import { HttpServer } from './http/server.ts'
import { limitLines } from './log-limiter.ts'
import type { Tracing } from './tracing/open.ts'

const DROP_LINES_PER_SEC = 1 // of connections that could not be served; the same of those refused

/** Piscina's entry: resolves when the worker has drained, rejects when it cannot start. */
export default async function serve(task: ServeTask): Promise<void> {
  try {
    await run(task)
  } finally {
    task.port.close() // what was said before still arrives; left open, it would keep main from ending
  }
}

async function run(task: ServeTask): Promise<void> {
  const stats = new Stats()
  const say = (message: FromWorker) => task.port.postMessage(message)
  const sayStats = () => say({ kind: 'stats', deltas: stats.takeDeltas() })
  process.on('exit', sayStats) // also when the thread throws: a message posted here still arrives
  const log: Log = (level, message) => say({ kind: 'log', level, message })

  const { engine, store } = await openEngine(task.settings, {
    memoryTable: task.memoryTable,
    decisionsStat: `sluice.worker.${task.index}.decisions`,
    stats,
    log,
    onHealth: (instances) => say({ kind: 'store', instances }),
  })
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
    task.port.on('message', (message: ToWorker) => {
      if (message.kind === 'rules') setRules(message)
      else if (message.kind === 'health') ports.setHealth(message.health)
      else if (message.kind === 'tls') ports.renew(message.tls)
      else if (message.kind === 'stats') sayStats()
      else if (message.kind === 'ending') ports.announceEnd()
      else if (message.kind === 'drain') resolve(message.timeoutMs)
      else if (process.env.NODE_ENV === 'test') throw new Error('told to crash')
    })
  })
  // Ports go before the thread does: node:http2 aborts the process when a thread ends while its sockets read.
  process.once('uncaughtException', (error) => {
    ports.close()
    setImmediate(() => {
      throw error
    })
  })
  answerInspections(workerThread(task.index), async () => [
    ...ports.facts(),
    ...((await store.facts?.()) ?? []),
  ])
  collectWhenIdle()
  say({ kind: 'ready' })
  await ports.drain(await drained)
  await store.close()
  await tracing?.close()
  process.off('exit', sayStats)
  sayStats()
}

/** The caller-facing ports of this thread. */
class Ports {
  private readonly health: HealthService
  private readonly frontend: GrpcFrontend
  private readonly listener: Listener | null // null = another worker has the socket
  private readonly door: TlsDoor | null // null = no TLS
  private readonly http: HttpServer

  private constructor(
    health: HealthService,
    frontend: GrpcFrontend,
    listener: Listener | null,
    door: TlsDoor | null,
    http: HttpServer,
  ) {
    this.health = health
    this.frontend = frontend
    this.listener = listener
    this.door = door
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
    const { methods, streams } = services(tracing?.grpcDecider(engine) ?? engine, health, log)
    const frontend = await makeFrontend(settings, {
      methods: tracing?.methods(methods) ?? methods,
      streams,
      headers: tracing?.headers ?? [],
      connectionAgeMs: settings.GRPC_MAX_CONNECTION_AGE,
      connectionAgeGraceMs: settings.GRPC_MAX_CONNECTION_AGE_GRACE,
      meterOf: (method) => meterOf(method, stats),
    })
    const door = await openDoor(task, frontend, log)
    const listener = await listenForGrpc(task, door ?? frontend, log)
    const http = new HttpServer({
      host: settings.HOST,
      port: settings.PORT,
      bodyBytesMax: settings.HTTP_BODY_MAX_BYTES,
      decider: tracing?.jsonDecider(engine) ?? engine,
      health: task.health,
      log,
    })
    return new Ports(health, frontend, listener, door, http)
  }

  setHealth(state: HealthState): void {
    this.health.isHealthy = state.isHealthy
    this.http.health = state
  }

  /** The gRPC port shows another certificate from now on. */
  renew(tls: PortTls): void {
    this.door?.renew(tls)
  }

  /** For an operator who looks. */
  facts(): Fact[] {
    const { connections, calls } = this.frontend.load()
    const callsText = calls < 0 ? '' : `, ${calls} calls in flight`
    return [
      ['gRPC', `${connections} connections${callsText}`],
      ['HTTP', `${this.http.inFlight} requests in flight`],
    ]
  }

  announceEnd(): void {
    this.http.announceEnd()
  }

  async drain(timeoutMs: number): Promise<void> {
    this.listener?.stop()
    this.door?.close()
    await Promise.all([this.frontend.drain(timeoutMs), this.http.drain(timeoutMs)])
  }

  /** Cuts everything now. */
  close(): void {
    this.listener?.stop()
    this.door?.close()
    this.frontend.close()
    this.http.close()
  }
}

/** Without tracing nothing of it is loaded, and nothing stands between the ports and the engine. */
async function openTracing(settings: Settings, log: Log): Promise<Tracing | null> {
  if (!settings.TRACING_ENABLED) return null
  return (await import('./tracing/open.ts')).openTracing(settings, log)
}

/** Only the one in use is loaded. */
async function makeFrontend(settings: Settings, options: GrpcFrontendOptions): Promise<GrpcFrontend> {
  if (settings.GRPC_FRONTEND === 'grpc-js') return (await import('./grpc/grpc-js.ts')).grpcJsFrontend(options)
  return (await import('./grpc/http2/server.ts')).http2Frontend(options)
}

async function openDoor({ tls }: ServeTask, frontend: GrpcFrontend, log: Log): Promise<TlsDoor | null> {
  if (tls === null) return null
  const { TlsDoor } = await import('./grpc/tls.ts')
  const limited = (level: 'warning' | 'info') =>
    limitLines((why) => log(level, `a gRPC connection was refused: ${why}`), DROP_LINES_PER_SEC)
  const lines = { warning: limited('warning'), info: limited('info') }
  return new TlsDoor(tls, {
    onSocket: (socket) => frontend.accept(socket),
    onRefused: (level, why) => lines[level](why),
  })
}

/**
 * Counts and times calls (spec 7.4). Time in eighths of a millisecond and 32 bits: a number that needs no memory of its
 * own, and whose differences stay right when it begins anew, every six days.
 */
function meterOf(method: string, stats: Stats): CallMeter {
  const total = stats.counter(`ratelimit_server.${method}.total_requests`)
  const timer = stats.timer(`ratelimit_server.${method}.response_time`)
  return {
    began() {
      stats.add(total, 1)
      return (performance.now() * EIGHTHS) | 0
    },
    ended(began) {
      timer.add(((((performance.now() * EIGHTHS) | 0) - began) >>> 0) / EIGHTHS)
    },
  }
}
const EIGHTHS = 8

/** Where an address cannot be shared, worker 0 has it: its replacement after a crash is worker 0 again. */
async function listenForGrpc(
  { index, settings: { GRPC_UDS: path, GRPC_HOST: host, GRPC_PORT: port } }: ServeTask,
  next: { accept(socket: Socket): void },
  log: Log,
): Promise<Listener | null> {
  if (index !== 0 && (path !== '' || !canSharePort)) return null
  return listen({
    ...(path !== '' ? { path } : { host, port }),
    onSocket: (socket) => next.accept(socket),
    onDrop: limitLines(
      (why) => log('warning', `a gRPC connection was not served: ${why}`),
      DROP_LINES_PER_SEC,
    ),
  })
}
