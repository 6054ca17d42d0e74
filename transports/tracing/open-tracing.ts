/**
 * Tracing of one worker: its own provider, so that spans never cross threads.
 *
 *     spans ──► sampled? ──► queue of 2,048 ──► at most 512 at once, every 5 s ──► OTLP by http or grpc
 *                                 └ full: dropped. A collector that is slow or away stops nobody.
 *
 * Where to, and with what credentials, is the environment's: OTEL_EXPORTER_OTLP_* are read by the exporters, OTEL_BSP_* for
 * the queue below. Of resources only three attributes are told (spec 11.3), so OTEL_RESOURCE_ATTRIBUTES has no effect.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { DiagLogLevel, diag } from '@opentelemetry/api'
import {
  CompositePropagator,
  getNumberFromEnv,
  setGlobalErrorHandler,
  W3CTraceContextPropagator,
} from '@opentelemetry/core'
import { B3Propagator } from '@opentelemetry/propagator-b3'
import { resourceFromAttributes } from '@opentelemetry/resources'
import {
  BatchSpanProcessor,
  ParentBasedSampler,
  TraceIdRatioBasedSampler,
  TracerProvider,
} from '@opentelemetry/sdk-trace'
import type { RateLimiter } from '../../engine/decision/rate-limiter.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { logOncePerMinute } from '../../engine/runtime/rate-limited-log.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import { errorText } from '../../engine/stores/connect-retry.ts'
import type { UnaryMethod } from '../grpc/frontend.ts'
import { collectorUrl, isAway } from './collector.ts'
import { openExporter } from './exporter.ts'
import { storeSpan } from './store-span.ts'
import { TRACE_HEADERS, tracedMethod } from './traced-method.ts'
import { type Parent, TracedJson, TracedRateLimiter } from './traced-rate-limiter.ts'

const FLUSH_MS_MAX = 5_000 // for what is queued at the end; beyond it is lost

export interface Tracing {
  readonly headers: readonly string[] // what a frontend must keep for `methods`
  methods(methods: readonly UnaryMethod[]): UnaryMethod[]
  /** Behind the methods above. */
  grpcLimiter(engine: RateLimiter): RateLimiter
  jsonLimiter(engine: RateLimiter): RateLimiter
  /** Sends what is queued; takes FLUSH_MS_MAX at most, no time where the collector is away, and never fails. */
  close(): Promise<void>
}

export async function openTracing(settings: Settings, log: Log): Promise<Tracing> {
  const logFailure = (cause: string) => log('warning', `traces: ${cause}`)
  const logCause = logOncePerMinute(logFailure) // a collector may be away for days
  const logLine = (message: string) => logCause(message)
  const silent = () => {}
  // Both are this thread's: what could not be sent, and what the library finds odd, dropped spans among it.
  setGlobalErrorHandler((error) => logCause(errorMessage(error)))
  const words = { error: logLine, warn: logLine, info: silent, debug: silent, verbose: silent }
  diag.setLogger(words, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
  const provider = new TracerProvider({
    resource: resourceFromAttributes({
      'service.name': settings.TRACING_SERVICE_NAME,
      'service.namespace': settings.TRACING_SERVICE_NAMESPACE,
      'service.instance.id': settings.TRACING_SERVICE_INSTANCE_ID,
    }),
    sampler: new ParentBasedSampler({ root: new TraceIdRatioBasedSampler(settings.TRACING_SAMPLING_RATE) }),
    spanProcessors: [new BatchSpanProcessor({ exporter: await openExporter(settings), ...queueOptions() })],
  })
  const collector = collectorUrl(settings.TRACING_EXPORTER_PROTOCOL)
  const store = storeSpan(settings)
  const tracers = {
    decision: provider.getTracer('ratelimit'),
    store: provider.getTracer(store?.tracer ?? ''),
    json: provider.getTracer('ratelimit server'),
  }
  const parent: Parent = { context: null }
  const propagator = new CompositePropagator({
    propagators: [new W3CTraceContextPropagator(), new B3Propagator()],
  })
  const methodTracing = { tracer: provider.getTracer('otelgrpc'), propagator, parent }
  return {
    headers: TRACE_HEADERS,
    methods: (methods) => methods.map((method) => tracedMethod(method, methodTracing)),
    grpcLimiter: (engine) => new TracedRateLimiter(engine, parent, tracers, store),
    jsonLimiter: (engine) => new TracedJson(engine, tracers, store),
    close: () => flushed(provider, collector, logFailure),
  }
}

/** As OpenTelemetry names them; undefined is the library's default. */
function queueOptions() {
  return {
    scheduledDelayMillis: getNumberFromEnv('OTEL_BSP_SCHEDULE_DELAY'),
    exportTimeoutMillis: getNumberFromEnv('OTEL_BSP_EXPORT_TIMEOUT'),
    maxQueueSize: getNumberFromEnv('OTEL_BSP_MAX_QUEUE_SIZE'),
    maxExportBatchSize: getNumberFromEnv('OTEL_BSP_MAX_EXPORT_BATCH_SIZE'),
  }
}

/** The exporter tries again and again for 10 s, which nobody would wait for: so we ask ourselves whether anybody is there. */
async function flushed(
  provider: TracerProvider,
  collector: URL,
  tell: (cause: string) => void,
): Promise<void> {
  const ending = new AbortController()
  const { signal } = ending
  const sent = provider.shutdown().then(() => null, errorMessage)
  const late = sleep(FLUSH_MS_MAX, 'the last spans did not arrive in time', { signal })
  const lost = isAway(collector, signal).then((error) => `the last spans are lost: ${errorMessage(error)}`)
  const trouble = await Promise.race([sent, late, lost])
  if (trouble !== null) tell(trouble)
  late.catch(() => {}) // ended with the rest
  ending.abort()
}

function errorMessage(error: unknown): string {
  if (error instanceof Error) return errorText(error)
  return typeof error === 'object' && error !== null && 'message' in error
    ? String(error.message)
    : String(error)
}
