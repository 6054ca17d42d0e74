/**
 * The exporter of spans: OTLP by http or grpc; the library reads OTEL_EXPORTER_OTLP_*. The main thread creates one too, so
 * that an invalid setting ends the start and not a worker. The endpoint is checked before, since the library may ignore it.
 */
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import { collectorUrl } from './collector.ts'

/** Loads only the selected exporter. */
export async function openExporter({ TRACING_EXPORTER_PROTOCOL }: Settings): Promise<SpanExporter> {
  if (TRACING_EXPORTER_PROTOCOL === 'grpc') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-grpc')
    return new OTLPTraceExporter()
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
  return new OTLPTraceExporter()
}

/** Rejects with ConfigurationError. Does not connect: an unreachable collector is not an error of the settings. */
export async function checkExporter(settings: Settings): Promise<void> {
  collectorUrl(settings.TRACING_EXPORTER_PROTOCOL)
  try {
    const exporter = await openExporter(settings)
    await exporter.shutdown()
  } catch (error) {
    throw new ConfigurationError({
      code: 'TRACING_INVALID',
      what: `the exporter of traces cannot be created: ${(error as Error).message}.`,
      fix: 'Check the variables OTEL_EXPORTER_OTLP_*.',
      exitCode: 2,
    })
  }
}
