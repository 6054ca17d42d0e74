/**
 * TLS in front of a frontend: encrypted sockets in, decrypted ones out (spec 5.7). One per worker, for either frontend.
 *
 *     listener ── socket ──► TlsAcceptor ── handshake ── ALPN is h2 ── certificate, name ──► frontend
 *                               │
 *                               └─ any error, or too slow: closed and reported
 *
 *     renew(tls)   open connections keep their certificate; new ones get the new certificate
 *
 * As in Go: TLS 1.2 at least, no renegotiation, and a client that does not agree on h2 is closed. Go rejects an untrusted
 * client certificate with a TLS alert; here the connection is closed after the handshake, since Node verifies only then.
 */
import { constants } from 'node:crypto'
import { isIP, type Socket } from 'node:net'
import {
  createServer,
  getCACertificates,
  type SecureContextOptions,
  type Server,
  type TLSSocket,
} from 'node:tls'
import type { PortTls } from '../../engine/runtime/messages.ts'
import { HANDSHAKE_MS } from './frontend.ts'

/**
 * Handshakes under way in one worker, about 40 KiB each; beyond, the oldest is closed, so that silent connections cannot
 * keep others out.
 */
export const HANDSHAKES_MAX = 1_000

const NAMES_CHARS_MAX = 200 // characters of a certificate's names in a log line

export interface TlsAcceptorOptions {
  /** Takes ownership of the decrypted connection. */
  onSocket: (socket: Socket) => void
  /** Called for closed connections. `warning`: because of the client's certificate; `info`: any other reason. */
  onRefused: (level: 'warning' | 'info', reason: string) => void
  handshakeMs?: number // default HANDSHAKE_MS
  handshakesMax?: number // default HANDSHAKES_MAX
}

export class TlsAcceptor {
  private readonly server: Server // never listens: it is given sockets
  private readonly options: Required<TlsAcceptorOptions>
  private readonly requestsCertificate: boolean
  private readonly san: string
  private readonly pendingHandshakes = new Set<Socket>() // in order of arrival

  constructor(tls: PortTls, options: TlsAcceptorOptions) {
    this.options = { handshakeMs: HANDSHAKE_MS, handshakesMax: HANDSHAKES_MAX, ...options }
    this.requestsCertificate = tls.clientCa !== null
    this.san = tls.clientSan
    this.server = createServer({
      ...getContextOptions(tls),
      ALPNProtocols: ['h2'],
      handshakeTimeout: this.options.handshakeMs,
      requestCert: this.requestsCertificate,
      rejectUnauthorized: true,
    })
    this.server.on('secureConnection', (socket) => this.onSecure(socket))
    this.server.on('tlsClientError', (error, socket) => this.onHandshakeError(error, socket))
  }

  /** `socket` has just been accepted and must not have been read from. */
  accept(socket: Socket): void {
    if (this.pendingHandshakes.size >= this.options.handshakesMax) this.dropOldest()
    this.pendingHandshakes.add(socket)
    socket.once('close', () => this.pendingHandshakes.delete(socket))
    void socket.remoteAddress // Node caches it, so it is known after the socket has closed
    this.server.emit('connection', socket) // the documented way to pass a connection to tls.Server
  }

  /** Applies to new handshakes. createSecureContext must have accepted these options before. */
  renew(tls: PortTls): void {
    this.server.setSecureContext(getContextOptions(tls))
  }

  /** Closes connections that are still in their handshake. */
  close(): void {
    for (const socket of this.pendingHandshakes) socket.destroy()
  }

  private onSecure(socket: TLSSocket): void {
    this.pendingHandshakes.delete(getUnderlyingSocket(socket))
    const reason = socket.alpnProtocol !== 'h2' ? 'the client does not offer the protocol h2 (ALPN)' : null
    if (reason !== null) this.refuse(socket, 'info', reason)
    else if (this.authorize(socket)) this.options.onSocket(socket)
  }

  /** Also for resumed connections: their session holds the certificate sent before. */
  private authorize(socket: TLSSocket): boolean {
    if (!this.requestsCertificate) return true
    const certificate = socket.getPeerX509Certificate()
    if (!socket.authorized || certificate === undefined) {
      this.refuse(socket, 'warning', 'the client sent no certificate')
      return false
    }
    if (this.san === '' || matchesName(certificate, this.san)) return true
    const names = certificate.subjectAltName?.slice(0, NAMES_CHARS_MAX) ?? 'no name'
    const error = `the certificate holds ${names}, not ${this.san}`
    this.refuse(socket, 'warning', `error validating client: ${error}`)
    return false
  }

  private refuse(socket: TLSSocket, level: 'warning' | 'info', reason: string): void {
    this.options.onRefused(level, `${reason}${describePeer(socket)}`)
    socket.destroy()
  }

  private onHandshakeError(error: NodeJS.ErrnoException, socket: TLSSocket): void {
    const code = error.code ?? error.message
    const refused = socket.authorizationError as unknown as string | null // a code, although its type is Error
    if (refused) {
      this.options.onRefused(
        'warning',
        `the client's certificate is not accepted: ${refused}${describePeer(socket)}`,
      )
    } else if (code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') {
      this.options.onRefused('warning', `the client sent no certificate${describePeer(socket)}`)
    } else if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') {
      this.options.onRefused(
        'info',
        `a TLS handshake took longer than ${this.options.handshakeMs} ms${describePeer(socket)}`,
      )
    } else if (code !== 'ECONNRESET' && code !== 'EPIPE') {
      this.options.onRefused('info', `a TLS handshake failed: ${describeError(error)}${describePeer(socket)}`)
    } // otherwise the client disconnected, as port probes do
    socket.destroy()
  }

  private dropOldest(): void {
    const [oldest] = this.pendingHandshakes
    this.pendingHandshakes.delete(oldest)
    this.options.onRefused('info', `more than ${this.options.handshakesMax} TLS handshakes are under way`)
    oldest.destroy()
  }
}

/** Does not validate; createSecureContext does. */
export function getContextOptions({ cert, key, clientCa }: PortTls): SecureContextOptions {
  return {
    cert,
    key,
    minVersion: 'TLSv1.2',
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    // Node's own copy of the public roots is included for systems without any.
    ...(clientCa !== null && { ca: [...new Set([...getRoots(), ...clientCa])] }),
  }
}

function getRoots(): string[] {
  return [...getCACertificates('default'), ...getCACertificates('system')]
}

/** As in Go: subject alternative names only, a wildcard stands for one whole label, addresses match addresses. */
function matchesName(
  certificate: NonNullable<ReturnType<TLSSocket['getPeerX509Certificate']>>,
  name: string,
): boolean {
  const address = name.replace(/^\[(.*)\]$/, '$1')
  if (isIP(address) !== 0) return certificate.checkIP(address) !== undefined
  if (name.startsWith('.')) return false // which OpenSSL would take for any subdomain
  return certificate.checkHost(name, { subject: 'never', partialWildcards: false }) !== undefined
}

/** The TCP socket. The field is not documented by Node; tests check that it exists. */
function getUnderlyingSocket(socket: TLSSocket): Socket {
  return (socket as TLSSocket & { _parent: Socket })._parent
}

function describePeer(socket: TLSSocket): string {
  const { remoteAddress } = getUnderlyingSocket(socket)
  return remoteAddress === undefined ? '' : ` (from ${remoteAddress})`
}

function describeError(error: NodeJS.ErrnoException & { reason?: string }): string {
  return error.reason ?? error.message
}
