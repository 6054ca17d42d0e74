/**
 * What the settings say about the management server and about us (spec 8.6).
 *
 *     CONFIG_GRPC_XDS_SERVER_URL                     target         where; a proxy where HTTPS_PROXY says so
 *     CONFIG_GRPC_XDS_SERVER_USE_TLS, …_TLS_…        layers         how; the files are read again for each connection
 *     CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS      headers        with every call
 *     CONFIG_GRPC_XDS_NODE_ID, …_NODE_METADATA       node           in every request
 *
 * TLS verifies against the system's roots and the CA given. The certificate must hold the host of the target, or the
 * name given instead, which may be an IP address too.
 */
import type { SecureContext } from 'node:tls'
import { type ChannelOptions, experimental, Metadata } from '@grpc/grpc-js'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import { clientContext } from '../../engine/stores/tls.ts'
import type { DiscoveryNode } from '../../proto/discovery.ts'
import { type Address, type HttpProxy, proxyFor } from './proxy.ts'
import type { Layers } from './tracked-credentials.ts'

const MESSAGE_BYTES_MAX = 4 * 2 ** 20 // unless XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES says otherwise
// A connection that died in silence would leave the rules of that day in force for ever. Servers allow a ping in 5 minutes.
const PING_MS = 6 * 60_000
const PING_TIMEOUT_MS = 20_000

export interface Endpoint {
  name: string // for people
  target: string // the server, or the proxy that leads to it
  options: ChannelOptions
  headers: Metadata
  node: DiscoveryNode
  /** For the next connection. */
  layers(): Layers
}

/** Throws OperatorError for files and headers that cannot be used. */
export function createEndpoint(settings: Settings, log: Log, env: NodeJS.ProcessEnv = process.env): Endpoint {
  const { CONFIG_GRPC_XDS_SERVER_URL: url, CONFIG_GRPC_XDS_SERVER_TLS_SAN: san } = settings
  const server = parseTarget(url)
  const proxy = server && proxyTo(server, env, log)
  const tunnel = server && proxy && { to: addressText(server), authorization: proxy.authorization }
  const usesTls = settings.CONFIG_GRPC_XDS_SERVER_USE_TLS
  const context = usesTls ? contexts(settings, log) : null
  const authority = usesTls && san !== '' ? san : proxy && addressText(server!)
  const name = san || (server?.host ?? 'localhost') // as the library calls who listens on a unix socket
  return {
    name: proxy ? `${url} through ${proxy.address}` : url,
    target: proxy?.address ?? url,
    headers: toMetadata(settings.CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS),
    node: {
      id: settings.CONFIG_GRPC_XDS_NODE_ID,
      metadata: parseMetadata(settings.CONFIG_GRPC_XDS_NODE_METADATA),
    },
    options: {
      'grpc.max_receive_message_length': settings.XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES || MESSAGE_BYTES_MAX,
      'grpc.keepalive_time_ms': PING_MS,
      'grpc.keepalive_timeout_ms': PING_TIMEOUT_MS,
      'grpc.use_local_subchannel_pool': 1, // each connection anew, and the pace of attempts is ours
      'grpc.service_config_disable_resolution': 1,
      'grpc.enable_retries': 0,
      'grpc.enable_http_proxy': 0, // the library's rules are not those of the reference
      ...(authority !== null && { 'grpc.default_authority': authority }),
    },
    layers: () => ({ tunnel, tls: context && { context: context(), name } }),
  }
}

const SCHEME = /^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/i // of targets, where there is one
const HTTPS_PORT = 443 // gRPC's own, where none is given

/** Null for a unix socket, or what only the library understands. */
function parseTarget(target: string): Address | null {
  if (/^unix(-abstract)?:/i.test(target)) return null
  const [first] = target.replace(SCHEME, '').split(',') // `ipv4:` may list several
  const split = experimental.splitHostPort(first)
  return split && { host: split.host, port: split.port ?? HTTPS_PORT }
}

function addressText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function proxyTo(server: Address, env: NodeJS.ProcessEnv, log: Log): HttpProxy | null {
  try {
    return proxyFor(server, env)
  } catch (error) {
    log('warning', `the management server is reached without a proxy: ${(error as Error).message}`)
    return null
  }
}

/** Of `k=v,k2=v2`; items without `=` are ignored. */
export function parseMetadata(text: string): DiscoveryNode['metadata'] {
  const items = text.split(',').filter((item) => item.includes('='))
  return Object.fromEntries(
    items.map((item) => [item.slice(0, item.indexOf('=')), item.slice(item.indexOf('=') + 1)]),
  )
}

function toMetadata(given: Settings['CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS']): Metadata {
  const headers = new Metadata()
  for (const [name, value] of Object.entries(given)) {
    try {
      headers.set(name, name.toLowerCase().endsWith('-bin') ? Buffer.from(value) : value)
    } catch {
      throw new ConfigurationError({
        code: 'XDS_HEADER_INVALID',
        where: 'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS',
        what: `the header ${JSON.stringify(name)} has characters that no header can have.`, // its value is nobody's business
        fix: 'Use letters, digits, `-`, `_` and `.` in its name, and printable ASCII in its value.',
        exitCode: 2,
      })
    }
  }
  return headers
}

/** Renewed files count from the next connection on; while they cannot be read, the last good ones do. */
function contexts(settings: Settings, log: Log): () => SecureContext {
  let context = readContext(settings)
  return () => {
    try {
      context = readContext(settings)
    } catch (error) {
      log(
        'warning',
        `the certificates in force stay, since these cannot be used: ${(error as Error).message}`,
      )
    }
    return context
  }
}

function readContext(settings: Settings): SecureContext {
  return clientContext(
    {
      caCert: settings.CONFIG_GRPC_XDS_SERVER_TLS_CACERT,
      clientCert: settings.CONFIG_GRPC_XDS_CLIENT_TLS_CERT,
      clientKey: settings.CONFIG_GRPC_XDS_CLIENT_TLS_KEY,
    },
    {
      caCert: 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT',
      clientCert: 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT',
      clientKey: 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY',
    },
  )
}
