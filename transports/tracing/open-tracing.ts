/**
 * Tracing of one worker, with its own provider, so that spans never cross threads.
 *
 *     spans ──► sampled? ──► queue of 2,048 ──► at most 512 at once, every 5 s ──► OTLP by http or grpc
 *                                 └ full: dropped. A slow or unreachable collector delays no request.
 *
 * The exporters read endpoint and credentials from OTEL_EXPORTER_OTLP_*; OTEL_BSP_* configure the queue. Resources have three
 * attributes only (spec 11.3), so OTEL_RESOURCE_ATTRIBUTES has no effect.
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
import { collectorUrl, connectionRefused } from './collector.ts'
import { openExporter } from './exporter.ts'
import { storeSpan } from './store-span.ts'
import { TRACE_HEADERS, tracedMethod } from './traced-method.ts'
import { type Parent, TracedJson, TracedRateLimiter } from './traced-rate-limiter.ts'

const FLUSH_MS_MAX = 5_000 // for queued spans at the end; later ones are lost

export interface Tracing {
  readonly headers: readonly string[] // that a frontend must keep for `methods`
  methods(methods: readonly UnaryMethod[]): UnaryMethod[]
  /** For calls of `methods`. */
  grpcLimiter(engine: RateLimiter): RateLimiter
  jsonLimiter(engine: RateLimiter): RateLimiter
  /** Sends queued spans for at most FLUSH_MS_MAX, not at all if the collector refuses connections. Never rejects. */
  close(): Promise<void>
}

export async function openTracing(settings: Settings, log: Log): Promise<Tracing> {
  const logFailure = (cause: string) => log('warning', `traces: ${cause}`)
  const logCause = logOncePerMinute(logFailure) // a collector may be unreachable for days
  const logLine = (message: string) => logCause(message)
  const silent = () => {}
  // Both are per thread: export errors, and warnings of the library, such as dropped spans.
  setGlobalErrorHandler((error) => logCause(errorMessage(error)))
  const logger = { error: logLine, warn: logLine, info: silent, debug: silent, verbose: silent }
  diag.setLogger(logger, { logLevel: DiagLogLevel.WARN, suppressOverrideMessage: true })
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
    close: () => flush(provider, collector, logFailure),
  }
}

/** The variables of OpenTelemetry; undefined is the library's default. */
function queueOptions() {
  return {
    scheduledDelayMillis: getNumberFromEnv('OTEL_BSP_SCHEDULE_DELAY'),
    exportTimeoutMillis: getNumberFromEnv('OTEL_BSP_EXPORT_TIMEOUT'),
    maxQueueSize: getNumberFromEnv('OTEL_BSP_MAX_QUEUE_SIZE'),
    maxExportBatchSize: getNumberFromEnv('OTEL_BSP_MAX_EXPORT_BATCH_SIZE'),
  }
}

/** The exporter retries for 10 s, too long for a shutdown, so the collector's port is tried here. */
async function flush(
  provider: TracerProvider,
  collector: URL,
  logFailure: (cause: string) => void,
): Promise<void> {
  const ending = new AbortController()
  const { signal } = ending
  const sent = provider.shutdown().then(() => null, errorMessage)
  const late = sleep(FLUSH_MS_MAX, 'the last spans did not arrive in time', { signal })
  const refused = connectionRefused(collector, signal).then(
    (error) => `the last spans are lost: ${errorMessage(error)}`,
  )
  const failure = await Promise.race([sent, late, refused])
  if (failure !== null) logFailure(failure)
  late.catch(() => {}) // aborted below
  ending.abort()
}

function errorMessage(error: unknown): string {
  if (error instanceof Error) return errorText(error)
  return typeof error === 'object' && error !== null && 'message' in error
    ? String(error.message)
    : String(error)
}
