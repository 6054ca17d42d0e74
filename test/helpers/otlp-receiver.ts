/**
 * A collector of traces over http or grpc that keeps the spans it receives.
 *
 *     const collector = await startCollector('http')
 *     … startService({ env: { ...TRACED, OTEL_EXPORTER_OTLP_ENDPOINT: collector.url } }) …
 *     const [server] = await collector.spans('envoy…/ShouldRateLimit')         waits for the first with that name
 *
 * Over http the exporter sends JSON; over grpc protobuf, of which the fields below are read.
 */
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { gunzipSync } from 'node:zlib'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import protobuf from 'protobufjs'
import { onTestFinished } from 'vitest'

const SPANS_MS_MAX = 60_000
const EXPORT = '/opentelemetry.proto.collector.trace.v1.TraceService/Export'

export interface ReceivedSpan {
  name: string
  tracer: string
  kind: number
  traceId: string // hex
  spanId: string
  parentSpanId: string // '' = a root
  attributes: Record<string, unknown>
  events: unknown[]
  status: { code?: number; message?: string }
  resource: Record<string, unknown>
}

/** The fields of opentelemetry/proto/trace/v1 that the tests read. */
const PROTO = `syntax = "proto3";
message Request { repeated ResourceSpans resource_spans = 1; }
message ResourceSpans { Resource resource = 1; repeated ScopeSpans scope_spans = 2; }
message Resource { repeated KeyValue attributes = 1; }
message ScopeSpans { Scope scope = 1; repeated Span spans = 2; }
message Scope { string name = 1; }
message KeyValue { string key = 1; AnyValue value = 2; }
message AnyValue { oneof value { string string_value = 1; bool bool_value = 2; int64 int_value = 3; double double_value = 4; } }
message Event { string name = 2; }
message Status { string message = 2; int32 code = 3; }
message Span {
  bytes trace_id = 1; bytes span_id = 2; bytes parent_span_id = 4; string name = 5; int32 kind = 6;
  repeated KeyValue attributes = 9; repeated Event events = 11; Status status = 15;
}`
const Request = protobuf.parse(PROTO).root.lookupType('Request')

export class Collector {
  url = ''
  readonly received: ReceivedSpan[] = []

  /** All spans with this name. Waits until there are `count`. */
  async spans(name: string, count = 1): Promise<ReceivedSpan[]> {
    const until = Date.now() + SPANS_MS_MAX
    for (;;) {
      const found = this.received.filter((span) => span.name === name)
      if (found.length >= count) return found
      if (Date.now() > until) {
        throw new Error(
          `${found.length} spans "${name}" came, of:\n${this.received.map((span) => span.name).join('\n')}`,
        )
      }
      await sleep(10)
    }
  }

  take(body: TraceRequest): void {
    for (const { resource, scopeSpans } of body.resourceSpans ?? []) {
      const common = toAttributes(resource?.attributes)
      for (const { scope, spans } of scopeSpans ?? [])
        for (const span of spans ?? []) this.received.push(toReceivedSpan(span, scope?.name ?? '', common))
    }
  }
}

/** Ends with the test, or when the function passed to `onEnd` is called. */
export async function startCollector(
  protocol: 'http' | 'grpc',
  onEnd: (close: () => void) => void = onTestFinished,
): Promise<Collector> {
  const collector = new Collector()
  const port = await (protocol === 'http' ? listenHttp(collector, onEnd) : listenGrpc(collector, onEnd))
  collector.url = `http://127.0.0.1:${port}`
  return collector
}

function listenHttp(collector: Collector, onEnd: (close: () => void) => void): Promise<number> {
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk)
    const bytes = Buffer.concat(chunks)
    const text = request.headers['content-encoding'] === 'gzip' ? gunzipSync(bytes) : bytes
    if (request.url === '/v1/traces') collector.take(JSON.parse(text.toString()))
    response.setHeader('content-type', 'application/json').end('{}')
  })
  onEnd(() => {
    server.closeAllConnections()
    server.close()
  })
  return new Promise((resolve) => {
    server.listen(0, '127.0.0.1', () => resolve((server.address() as AddressInfo).port))
  })
}

function listenGrpc(collector: Collector, onEnd: (close: () => void) => void): Promise<number> {
  const server = new Server()
  const same = (bytes: Buffer) => bytes
  server.register<Buffer, Buffer>(
    EXPORT,
    ({ request }: { request: Buffer }, respond: (error: null, response: Buffer) => void) => {
      collector.take(Request.toObject(Request.decode(request), { longs: String }) as TraceRequest)
      respond(null, Buffer.alloc(0))
    },
    same,
    same,
    'unary',
  )
  onEnd(() => server.forceShutdown())
  return new Promise((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, port) =>
      error ? reject(error) : resolve(port),
    )
  })
}

interface KeyValue {
  key: string
  value?: { stringValue?: string; boolValue?: boolean; intValue?: string | number; doubleValue?: number }
}
interface WireSpan {
  name: string
  kind?: number
  traceId: string | Uint8Array // JSON has hex
  spanId: string | Uint8Array
  parentSpanId?: string | Uint8Array
  attributes?: KeyValue[]
  events?: unknown[]
  status?: ReceivedSpan['status']
}
interface TraceRequest {
  resourceSpans?: {
    resource?: { attributes?: KeyValue[] }
    scopeSpans?: { scope?: { name?: string }; spans?: WireSpan[] }[]
  }[]
}

function toReceivedSpan(span: WireSpan, tracer: string, resource: Record<string, unknown>): ReceivedSpan {
  return {
    name: span.name,
    tracer,
    kind: span.kind ?? 0,
    traceId: hex(span.traceId),
    spanId: hex(span.spanId),
    parentSpanId: hex(span.parentSpanId ?? ''),
    attributes: toAttributes(span.attributes),
    events: span.events ?? [],
    status: span.status ?? {},
    resource,
  }
}

function hex(id: string | Uint8Array): string {
  return typeof id === 'string' ? id : Buffer.from(id).toString('hex')
}

/** Integers may be strings on the wire. */
function toAttributes(pairs: KeyValue[] = []): Record<string, unknown> {
  return Object.fromEntries(
    pairs.map(({ key, value = {} }) => [
      key,
      value.intValue !== undefined ? Number(value.intValue) : Object.values(value)[0],
    ]),
  )
}
