/**
 * TLS to Redis, memcached or a management server: files in, one context for all connections of a store out (spec 8.6, 9.2, 9.6).
 *
 *     roots   the system's, Node's and *_TLS_CACERT           our pair   only when certificate and key are both given
 *     name    the host that was dialled must stand in the server's certificate, unless that check is switched off;
 *             the chain is verified always
 *
 * Files are read when a store is made: a worker that replaces another one sees renewed files, running ones do not.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type ConnectionOptions, createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { ConfigurationError } from '../runtime/errors.ts'

/** What a client of ours needs. Empty = not given. */
export interface ClientFiles {
  caCert: string
  clientCert: string
  clientKey: string
}

/** Plain, so it can be posted to a worker. */
export interface TlsFiles extends ClientFiles {
  prefix: 'REDIS_TLS' | 'MEMCACHE_TLS' // of the settings: _CACERT, _CLIENT_CERT, _CLIENT_KEY
  skipsHostname: boolean // <prefix>_SKIP_HOSTNAME_VERIFICATION
}

/** Options of a TLS connection to the given host. */
export type TlsTo = (host: string) => ConnectionOptions

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Throws an OperatorError that names the variable and its file. */
export function tlsTo(files: TlsFiles): TlsTo {
  const { prefix } = files
  const secureContext = clientContext(files, {
    caCert: `${prefix}_CACERT`,
    clientCert: `${prefix}_CLIENT_CERT`,
    clientKey: `${prefix}_CLIENT_KEY`,
  })
  const nameCheck = files.skipsHostname ? { checkServerIdentity: () => undefined } : {}
  return (host) => ({
    secureContext,
    ...nameCheck,
    ...(host !== '' && isIP(host) === 0 && { servername: host }), // an IP address is no name (RFC 6066)
  })
}

/** The same for any client; `variables` have the files' names, for error texts. */
export function clientContext(files: ClientFiles, variables: ClientFiles): SecureContext {
  const { caCert, clientCert, clientKey } = files
  const ca = new Set([...getCACertificates('default'), ...getCACertificates('system')])
  if (caCert !== '') for (const certificate of readRoots(variables.caCert, caCert)) ca.add(certificate)
  const hasPair = clientCert !== '' && clientKey !== ''
  const cert = hasPair ? read(variables.clientCert, clientCert) : undefined
  const key = hasPair ? read(variables.clientKey, clientKey) : undefined
  try {
    return createSecureContext({ ca: [...ca], cert, key })
  } catch (cause) {
    const what = `failed to load TLS key pair (${clientCert},${clientKey}): ${(cause as Error).message}`
    throw unusable(`${variables.clientCert}, ${variables.clientKey}`, what, cause)
  }
}

function readRoots(variable: string, file: string): string[] {
  const roots = read(variable, file).match(CERTIFICATE) ?? []
  try {
    if (roots.length === 0) throw new Error('it holds no certificate')
    for (const root of roots) new X509Certificate(root)
    return roots
  } catch (cause) {
    const what = `failed to load the provided TLS CA certificate: ${file}: ${(cause as Error).message}`
    throw unusable(variable, what, cause)
  }
}

function read(variable: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    throw unusable(variable, `failed to read file: ${file}: ${(cause as Error).message}`, cause)
  }
}

function unusable(where: string, what: string, cause: unknown): ConfigurationError {
  return new ConfigurationError({ code: 'TLS_FILES_UNUSABLE', where, what, exitCode: 2 }, { cause })
}
