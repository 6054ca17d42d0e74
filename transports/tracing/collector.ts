/**
 * The collector of traces from OTEL_EXPORTER_OTLP_TRACES_ENDPOINT or OTEL_EXPORTER_OTLP_ENDPOINT; the first one wins.
 *
 *     http    http://host:4318, https://…                           default http://localhost:4318
 *     grpc    http://host:4317, https://…, host:4317, unix:///path  default http://localhost:4317
 *
 * The library reads both itself. Over http it silently uses the default for an invalid value, and spans are lost; it appends a
 * path, so a trailing space makes the value invalid too. Both are therefore checked here first.
 */
import { connect } from 'node:net'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Settings } from '../../engine/settings/parse.ts'

type Protocol = Settings['TRACING_EXPORTER_PROTOCOL']

const VARIABLES = ['OTEL_EXPORTER_OTLP_TRACES_ENDPOINT', 'OTEL_EXPORTER_OTLP_ENDPOINT']
const DEFAULTS = { http: 'http://localhost:4318', grpc: 'http://localhost:4317' }
const ALLOWED = { http: ['http:', 'https:'], grpc: ['http:', 'https:', 'unix:'] }
const FIX = {
  http: 'Set it to a URL with http:// or https://, such as http://localhost:4318.',
  grpc: 'Set it to host:port or to a URL with http://, https:// or unix://, such as http://localhost:4317.',
}
const SCHEME = /^\w{1,8}:\/\// // how the exporter distinguishes a URL from host:port
const PORTS: Record<string, number> = { 'http:': 80, 'https:': 443 }

/** Throws ConfigurationError for an endpoint that cannot be used. */
export function collectorUrl(protocol: Protocol, env: NodeJS.ProcessEnv = process.env): URL {
  const variable = VARIABLES.find((name) => env[name]?.trim())
  const text = variable ? env[variable]! : DEFAULTS[protocol]
  const url = URL.parse(
    protocol === 'grpc' && !SCHEME.test(text.trim()) ? `https://${text.trim()}` : `${text}/`,
  )
  if (url !== null && ALLOWED[protocol].includes(url.protocol)) return url
  throw new ConfigurationError({
    code: 'TRACING_INVALID',
    where: variable,
    what: `"${maskSecrets(text)}" is not an address of a collector over ${protocol}.`,
    fix: FIX[protocol],
    exitCode: 2,
  })
}

/** Replaces what may be secret: user and password, the query. */
function maskSecrets(text: string): string {
  return text.replace(/^(\w{1,8}:\/\/)?.*@/s, '$1*****@').replace(/\?.*/s, '?*****')
}

/** Resolves with the error if the collector refuses a connection. Never resolves if it accepts or does not answer. */
export function connectionRefused(url: URL, signal: AbortSignal): Promise<Error> {
  const { protocol, hostname, port, pathname } = url
  const host = hostname.replace(/^\[|\]$/g, '')
  const address = protocol === 'unix:' ? { path: pathname } : { host, port: Number(port) || PORTS[protocol] }
  return new Promise((resolve) => {
    const socket = connect({ ...address, signal })
    socket.on('connect', () => socket.destroy())
    socket.on('error', (error) => {
      if (!signal.aborted) resolve(error)
    })
  })
}
