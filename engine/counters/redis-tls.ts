/**
 * TLS to Redis: files in, one context for all connections of a store out (spec 9.2).
 *
 *     roots   the system's, Node's and REDIS_TLS_CACERT       our pair   only when certificate and key are both given
 *     name    the host that was dialled must stand in the server's certificate, unless that check is switched off;
 *             the chain is verified always
 *
 * Files are read when a store is made: a worker that replaces another one sees renewed files, running ones do not.
 */
import { X509Certificate } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { isIP } from 'node:net'
import { type ConnectionOptions, createSecureContext, getCACertificates } from 'node:tls'
import { OperatorError } from '../errors.ts'

/** Plain, so it can be posted to a worker. Empty = not given. */
export interface RedisTlsFiles {
  caCert: string // REDIS_TLS_CACERT
  clientCert: string // REDIS_TLS_CLIENT_CERT
  clientKey: string // REDIS_TLS_CLIENT_KEY
  skipsHostname: boolean // REDIS_TLS_SKIP_HOSTNAME_VERIFICATION
}

/** Options of a TLS connection to the given host. */
export type TlsTo = (host: string) => ConnectionOptions

const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

/** Throws an OperatorError that names the variable and its file. */
export function redisTls(files: RedisTlsFiles): TlsTo {
  const ca = new Set([...getCACertificates('default'), ...getCACertificates('system')])
  if (files.caCert !== '') for (const certificate of readRoots(files.caCert)) ca.add(certificate)
  const { clientCert, clientKey } = files
  const pair =
    clientCert !== '' && clientKey !== ''
      ? { cert: read('REDIS_TLS_CLIENT_CERT', clientCert), key: read('REDIS_TLS_CLIENT_KEY', clientKey) }
      : {}
  const secureContext = createContext({ ca: [...ca], ...pair }, files)
  const nameCheck = files.skipsHostname ? { checkServerIdentity: () => undefined } : {}
  return (host) => ({
    secureContext,
    ...nameCheck,
    ...(host !== '' && isIP(host) === 0 && { servername: host }), // an IP address is no name (RFC 6066)
  })
}

function createContext(options: object, { clientCert, clientKey }: RedisTlsFiles) {
  try {
    return createSecureContext(options)
  } catch (cause) {
    const what = `failed lo load TLS key pair (${clientCert},${clientKey}): ${(cause as Error).message}` // sic
    const where = 'REDIS_TLS_CLIENT_CERT, REDIS_TLS_CLIENT_KEY'
    throw new OperatorError({ code: 'REDIS_TLS_PAIR', where, what, exitCode: 2 }, { cause })
  }
}

function readRoots(file: string): string[] {
  const roots = read('REDIS_TLS_CACERT', file).match(CERTIFICATE) ?? []
  try {
    if (roots.length === 0) throw new Error('it holds no certificate')
    for (const root of roots) new X509Certificate(root)
    return roots
  } catch (cause) {
    const what = `failed to load the provided TLS CA certificate: ${file}: ${(cause as Error).message}`
    throw new OperatorError(
      { code: 'REDIS_TLS_CACERT', where: 'REDIS_TLS_CACERT', what, exitCode: 2 },
      { cause },
    )
  }
}

function read(variable: string, file: string): string {
  try {
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const what = `failed to read file: ${file}: ${(cause as Error).message}`
    throw new OperatorError({ code: 'REDIS_TLS_FILE', where: variable, what, exitCode: 2 }, { cause })
  }
}
