/**
 * A worker thread: an engine with its store, and the two ports callers know. This is the task of the serve pool.
 *
 *     start   store connects ─► engine gets rules ─► gRPC and HTTP listen ─► `ready`
 *     drain   stop listening ─► GOAWAY, `Connection: close` ─► running requests answered ─► store closes ─► task ends
 *
 * Whatever ends the thread, its last statistics are sent and its uWebSockets.js app is closed (see uws.ts).
 */
import type { CounterStore } from '../engine/counters/store.ts'
import { Engine } from '../engine/decide.ts'
import type { FromWorker, Log, ServeTask, ToWorker } from '../engine/messages.ts'
import type { Settings } from '../engine/settings/parse.ts'
import { Stats } from '../engine/stats/stats.ts'
import type { GrpcFrontend } from './grpc/frontend.ts'
import { grpcJsFrontend } from './grpc/grpc-js.ts'
import { type Listener, listen } from './grpc/listener.ts'
import { unaryMethods } from './grpc/services.ts'
import { HttpServer } from './http/server.ts'

/** Piscina's entry: resolves when the worker has drained, rejects when it cannot start. */
export default async function serve(task: ServeTask): Promise<void> {
  const stats = new Stats()
  const say = (message: FromWorker) => task.port.postMessage(message)
  const sayStats = () => say({ kind: 'stats', deltas: stats.takeDeltas() })
  process.on('exit', sayStats) // also when the thread throws: a message posted here still arrives
  const log: Log = (level, message) => say({ kind: 'log', level, message })

  const store = await openStore(task, log, (isConnected) => say({ kind: 'redis', isConnected }))
  const engine = new Engine({ store, stats, ...engineOptions(task) })
  if (task.rules) engine.setRules(task.rules)
  const ports = await Ports.open(task, engine, stats, log)

  const drained = new Promise<number>((resolve) => {
    task.port.on('message', (message: ToWorker) => {
      if (message.kind === 'rules') engine.setRules(message.rules)
      else if (message.kind === 'health') ports.isHealthy = message.isHealthy
      else if (message.kind === 'stats') sayStats()
      else if (message.kind === 'drain') resolve(message.timeoutMs)
      else if (process.env.NODE_ENV === 'test') throw new Error('told to crash')
    })
  })
  say({ kind: 'ready' })
  await ports.drain(await drained)
  await store.close()
  process.off('exit', sayStats)
  sayStats()
  task.port.close()
}

/** The caller-facing ports of this thread. */
class Ports {
  isHealthy: boolean
  private readonly frontend: GrpcFrontend
  private readonly listener: Listener
  private readonly http: HttpServer

  private constructor(isHealthy: boolean, frontend: GrpcFrontend, listener: Listener, http: HttpServer) {
    this.isHealthy = isHealthy
    this.frontend = frontend
    this.listener = listener
    this.http = http
  }

  static async open(
    { settings, isHealthy }: ServeTask,
    decider: Engine,
    stats: Stats,
    log: Log,
  ): Promise<Ports> {
    const frontend = grpcJsFrontend({
      methods: unaryMethods(decider, log),
      connectionAgeMs: settings.GRPC_MAX_CONNECTION_AGE,
      connectionAgeGraceMs: settings.GRPC_MAX_CONNECTION_AGE_GRACE,
      onCall: (method) => stats.add(stats.counter(`ratelimit_server.${method}.total_requests`), 1),
    })
    const listener = await listen({
      host: settings.GRPC_HOST,
      port: settings.GRPC_PORT,
      onSocket: (socket) => frontend.accept(socket),
      onDrop: (why) => log('warning', `a gRPC connection was not served: ${why}`),
    })
    const http = new HttpServer({
      host: settings.HOST,
      port: settings.PORT,
      bodyBytesMax: settings.HTTP_BODY_MAX_BYTES,
      decider,
      isHealthy: () => ports.isHealthy,
      log,
    })
    const ports = new Ports(isHealthy, frontend, listener, http)
    return ports
  }

  async drain(timeoutMs: number): Promise<void> {
    this.listener.stop()
    await Promise.all([this.frontend.drain(timeoutMs), this.http.drain(timeoutMs)])
  }
}

/** One kind of store per process, so one shape at every call site. Only its own code is loaded. */
async function openStore(
  { settings, memoryTable }: ServeTask,
  log: Log,
  onConnected: (isConnected: boolean) => void,
): Promise<CounterStore> {
  if (memoryTable) {
    const { MemoryStore } = await import('../engine/counters/memory.ts')
    return new MemoryStore(memoryTable)
  }
  const { RedisStore, redisOptions } = await import('../engine/counters/redis.ts')
  const store = new RedisStore(redisOptions(settings), { log, onConnected })
  await store.connect()
  return store
}

function engineOptions({ index, settings }: { index: number; settings: Settings }) {
  return {
    nowSec: () => Math.floor(Date.now() / 1000),
    random: Math.random,
    decisionsStat: `sluice.worker.${index}.decisions`,
    nearLimitRatio: settings.NEAR_LIMIT_RATIO,
    keyPrefix: settings.CACHE_KEY_PREFIX,
    jitterMaxSec: settings.EXPIRATION_JITTER_MAX_SECONDS,
    isShadow: settings.SHADOW_MODE,
    isQuota: settings.QUOTA_MODE,
    headerNames: settings.LIMIT_RESPONSE_HEADERS_ENABLED
      ? {
          limit: settings.LIMIT_LIMIT_HEADER,
          remaining: settings.LIMIT_REMAINING_HEADER,
          reset: settings.LIMIT_RESET_HEADER,
        }
      : null,
  }
}
