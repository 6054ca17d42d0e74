/**
 * What the settings say about the management server and about us (spec 8.6).
 *
 *     CONFIG_GRPC_XDS_SERVER_URL                     target         where
 *     CONFIG_GRPC_XDS_SERVER_USE_TLS, …_TLS_…        credentials    how; the files are read again for each connection
 *     CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS      headers        with every call
 *     CONFIG_GRPC_XDS_NODE_ID, …_NODE_METADATA       node           in every request
 *
 * TLS verifies against the system's roots and the CA given. The certificate must hold the host of the target, or the
 * name given instead, which may be an IP address too.
 */
import { isIP } from 'node:net'
import { checkServerIdentity, type SecureContext } from 'node:tls'
import { type ChannelCredentials, type ChannelOptions, credentials, Metadata } from '@grpc/grpc-js'
import { clientContext } from '../../engine/counters/tls.ts'
import { OperatorError } from '../../engine/errors.ts'
import type { Log } from '../../engine/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import type { DiscoveryNode } from '../../proto/discovery.ts'

const MESSAGE_BYTES_MAX = 4 * 2 ** 20 // unless XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES says otherwise
// A connection that died in silence would leave the rules of that day in force for ever. Servers allow a ping in 5 minutes.
const PING_MS = 6 * 60_000
const PING_TIMEOUT_MS = 20_000

export interface Endpoint {
  target: string
  options: ChannelOptions
  headers: Metadata
  node: DiscoveryNode
  /** For the next connection. */
  credentials(): ChannelCredentials
}

/** Throws OperatorError for files and headers that cannot be used. */
export function endpointOf(settings: Settings, log: Log): Endpoint {
  const { CONFIG_GRPC_XDS_SERVER_TLS_SAN: san, CONFIG_GRPC_XDS_SERVER_USE_TLS: usesTls } = settings
  return {
    target: settings.CONFIG_GRPC_XDS_SERVER_URL,
    headers: headersOf(settings.CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS),
    node: {
      id: settings.CONFIG_GRPC_XDS_NODE_ID,
      metadata: metadataOf(settings.CONFIG_GRPC_XDS_NODE_METADATA),
    },
    options: {
      'grpc.max_receive_message_length': settings.XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES || MESSAGE_BYTES_MAX,
      'grpc.keepalive_time_ms': PING_MS,
      'grpc.keepalive_timeout_ms': PING_TIMEOUT_MS,
      'grpc.use_local_subchannel_pool': 1, // each connection anew, and the pace of attempts is ours
      'grpc.service_config_disable_resolution': 1,
      'grpc.enable_retries': 0,
      ...(usesTls && san !== '' && isIP(san) === 0 && { 'grpc.ssl_target_name_override': san }),
    },
    credentials: usesTls ? tlsCredentials(settings, log) : () => credentials.createInsecure(),
  }
}

/** Of `k=v,k2=v2`; items without `=` are ignored. */
export function metadataOf(text: string): DiscoveryNode['metadata'] {
  const items = text.split(',').filter((item) => item.includes('='))
  return Object.fromEntries(
    items.map((item) => [item.slice(0, item.indexOf('=')), item.slice(item.indexOf('=') + 1)]),
  )
}

function headersOf(given: Settings['CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS']): Metadata {
  const headers = new Metadata()
  for (const [name, value] of Object.entries(given)) {
    try {
      headers.set(name, name.toLowerCase().endsWith('-bin') ? Buffer.from(value) : value)
    } catch {
      throw new OperatorError({
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
function tlsCredentials(settings: Settings, log: Log): () => ChannelCredentials {
  let context = readContext(settings)
  const san = settings.CONFIG_GRPC_XDS_SERVER_TLS_SAN
  const byAddress = isIP(san) === 0 ? {} : { checkServerIdentity: nameCheckFor(san) } // an address is no SNI name
  return () => {
    try {
      context = readContext(settings)
    } catch (error) {
      log(
        'warning',
        `the certificates in force stay, since these cannot be used: ${(error as Error).message}`,
      )
    }
    return credentials.createFromSecureContext(context, byAddress)
  }
}

function nameCheckFor(name: string): typeof checkServerIdentity {
  return (_host, certificate) => checkServerIdentity(name, certificate)
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
