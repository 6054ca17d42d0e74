/**
 * TLS to Redis, memcached or a management server: one secure context from files for all connections of a store (spec 8.6, 9.2,
 * 9.6).
 *
 *     roots   the system's, Node's and *_TLS_CACERT        client certificate   only if certificate and key are both set
 *     name    the server's certificate must have the host name that was dialled, unless that check is switched off;
 *             the chain is always verified
 *
 * Files are read when a store is created, so a replacement worker sees renewed files and running ones do not.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type ConnectionOptions, createSecureContext, getCACertificates, type SecureContext } from 'node:tls'
import { ConfigurationError } from '../runtime/errors.ts'

/** Files of a TLS client. Empty = not set. */
export interface ClientFiles {
  caCert: string
  clientCert: string
  clientKey: string
}

/** Plain data, so it can be posted to a worker. */
export interface TlsFiles extends ClientFiles {
  prefix: 'REDIS_TLS' | 'MEMCACHE_TLS' // of the settings: _CACERT, _CLIENT_CERT, _CLIENT_KEY
  skipsHostname: boolean // <prefix>_SKIP_HOSTNAME_VERIFICATION
}

/** Options of a TLS connection to the given host. */
export type TlsTo = (host: string) => ConnectionOptions

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Throws a ConfigurationError that names the setting and its file. */
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
    ...(host !== '' && isIP(host) === 0 && { servername: host }), // an IP address is not a server name (RFC 6066)
  })
}

/** Any client's TLS context; `variables` are the settings of the files, for errors. */
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
    if (roots.length === 0) throw new Error('it contains no certificate')
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
