/**
 * The settings of the management server (spec 8.6).
 *
 *     CONFIG_GRPC_XDS_SERVER_URL                     target         the server, or a proxy if HTTPS_PROXY applies
 *     CONFIG_GRPC_XDS_SERVER_USE_TLS, …_TLS_…        layers         files are read again for each connection
 *     CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS      headers        of every call
 *     CONFIG_GRPC_XDS_NODE_ID, …_NODE_METADATA       node           in every request
 *
 * TLS verifies against the system's roots and the configured CA. The certificate must contain the host of the target, or the
 * configured name, which may be an IP address.
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
// Detects a dead connection, which would otherwise freeze the rules. Servers allow one ping in 5 minutes.
const PING_MS = 6 * 60_000
const PING_TIMEOUT_MS = 20_000

export interface Endpoint {
  name: string // for log lines
  target: string // the server, or the proxy
  options: ChannelOptions
  headers: Metadata
  node: DiscoveryNode
  /** Of the next connection. */
  layers(): Layers
}

/** Throws ConfigurationError for files and headers that cannot be used. */
export function createEndpoint(settings: Settings, log: Log, env: NodeJS.ProcessEnv = process.env): Endpoint {
  const { CONFIG_GRPC_XDS_SERVER_URL: url, CONFIG_GRPC_XDS_SERVER_TLS_SAN: san } = settings
  const server = parseTarget(url)
  const proxy = server && findProxy(server, env, log)
  const tunnel = server && proxy && { to: addressText(server), authorization: proxy.authorization }
  const usesTls = settings.CONFIG_GRPC_XDS_SERVER_USE_TLS
  const context = usesTls ? contexts(settings, log) : null
  const authority = usesTls && san !== '' ? san : proxy && addressText(server!)
  const name = san || (server?.host ?? 'localhost') // the library's name for unix sockets
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
      'grpc.use_local_subchannel_pool': 1, // no connection is reused; source.ts paces the attempts
      'grpc.service_config_disable_resolution': 1,
      'grpc.enable_retries': 0,
      'grpc.enable_http_proxy': 0, // the library's rules differ from Go's; see proxy.ts
      ...(authority !== null && { 'grpc.default_authority': authority }),
    },
    layers: () => ({ tunnel, tls: context && { context: context(), name } }),
  }
}

const SCHEME = /^(?:dns:(?:\/\/[^/]*\/)?|ipv[46]:)/i // optional prefix of a target
const DEFAULT_PORT = 443 // of gRPC

/** Null for a unix socket, or a target that only the library understands. */
function parseTarget(target: string): Address | null {
  if (/^unix(-abstract)?:/i.test(target)) return null
  const [first] = target.replace(SCHEME, '').split(',') // `ipv4:` may list several
  const split = experimental.splitHostPort(first)
  return split && { host: split.host, port: split.port ?? DEFAULT_PORT }
}

function addressText({ host, port }: Address): string {
  return host.includes(':') ? `[${host}]:${port}` : `${host}:${port}`
}

function findProxy(server: Address, env: NodeJS.ProcessEnv, log: Log): HttpProxy | null {
  try {
    return proxyFor(server, env)
  } catch (error) {
    log('warning', `connecting to the management server without a proxy: ${(error as Error).message}`)
    return null
  }
}

/** Parses `k=v,k2=v2`; items without `=` are ignored. */
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
        what: `the header ${JSON.stringify(name)} has invalid characters.`, // its value may be secret
        fix: 'Use letters, digits, `-`, `_` and `.` in its name, and printable ASCII in its value.',
        exitCode: 2,
      })
    }
  }
  return headers
}

/** Files are read for each connection; if they cannot be used, the last valid ones stay in use. */
function contexts(settings: Settings, log: Log): () => SecureContext {
  let context = readContext(settings)
  return () => {
    try {
      context = readContext(settings)
    } catch (error) {
      log(
        'warning',
        `keeping the previous certificates, since the new ones cannot be used: ${(error as Error).message}`,
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
