/**
 * Where spans go: OTLP by http or grpc, with OTEL_EXPORTER_OTLP_* read by the library. Main makes one, too, so that a
 * setting it cannot use ends the start and not a worker; the endpoint is looked at before, since the library may do without.
 */
import type { SpanExporter } from '@opentelemetry/sdk-trace'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import { collectorUrl } from './collector.ts'

/** Only the one in use is loaded. */
export async function openExporter({ TRACING_EXPORTER_PROTOCOL }: Settings): Promise<SpanExporter> {
  if (TRACING_EXPORTER_PROTOCOL === 'grpc') {
    const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-grpc')
    return new OTLPTraceExporter()
  }
  const { OTLPTraceExporter } = await import('@opentelemetry/exporter-trace-otlp-http')
  return new OTLPTraceExporter()
}

/** Rejects with ConfigurationError. Reaches nobody: a collector that is away is no mistake. */
export async function checkExporter(settings: Settings): Promise<void> {
  collectorUrl(settings.TRACING_EXPORTER_PROTOCOL)
  try {
    const exporter = await openExporter(settings)
    await exporter.shutdown()
  } catch (error) {
    throw new ConfigurationError({
      code: 'TRACING_INVALID',
      what: `the exporter of traces cannot be made: ${(error as Error).message}.`,
      fix: 'Look at the variables OTEL_EXPORTER_OTLP_*.',
      exitCode: 2,
    })
  }
}
