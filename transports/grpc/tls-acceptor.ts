/**
 * TLS before a frontend: encrypted sockets in, decrypted ones out (spec 5.7). One for a worker, whichever frontend.
 *
 *     listener ── socket ──► TlsDoor ── handshake ── ALPN is h2 ── certificate, name ──► frontend
 *                               │
 *                               └─ anything wrong, or too slow: closed, and told of
 *
 *     renew(tls)   what is open goes on with what it has; whoever comes sees the new certificate
 *
 * As Go has it: TLS 1.2 at least, no renegotiation, and a client that does not agree on h2 is closed. Unlike Go, which
 * ends the handshake with an alert, a certificate nobody signed is closed right after it: Node verifies only then.
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
 * Handshakes under way in one worker, some 40 KiB each; beyond: the one that has waited longest is closed, so that
 * silent connections do not keep out those that speak.
 */
export const HANDSHAKES_MAX = 1_000

const NAMES_SHOWN_MAX = 200 // characters of a certificate's names in a log line

export interface TlsAcceptorOptions {
  /** Gets the decrypted connection and owns it. */
  onSocket: (socket: Socket) => void
  /** Told of connections that were closed. `warning`: their certificate is why; `info`: anything else. */
  onRefused: (level: 'warning' | 'info', why: string) => void
  handshakeMs?: number // default HANDSHAKE_MS
  handshakesMax?: number // default HANDSHAKES_MAX
}

export class TlsAcceptor {
  private readonly server: Server // never listens: it is given sockets
  private readonly options: Required<TlsAcceptorOptions>
  private readonly asksForCertificate: boolean
  private readonly san: string
  private readonly pendingHandshakes = new Set<Socket>() // in order of arrival

  constructor(tls: PortTls, options: TlsAcceptorOptions) {
    this.options = { handshakeMs: HANDSHAKE_MS, handshakesMax: HANDSHAKES_MAX, ...options }
    this.asksForCertificate = tls.clientCa !== null
    this.san = tls.clientSan
    this.server = createServer({
      ...contextOptions(tls),
      ALPNProtocols: ['h2'],
      handshakeTimeout: this.options.handshakeMs,
      requestCert: this.asksForCertificate,
      rejectUnauthorized: true,
    })
    this.server.on('secureConnection', (socket) => this.agreed(socket))
    this.server.on('tlsClientError', (error, socket) => this.failed(error, socket))
  }

  /** A connection just accepted, of which nothing has been read. */
  accept(socket: Socket): void {
    if (this.pendingHandshakes.size >= this.options.handshakesMax) this.dropOldest()
    this.pendingHandshakes.add(socket)
    socket.once('close', () => this.pendingHandshakes.delete(socket))
    void socket.remoteAddress // Node remembers it from now on, also for lines about a closed one
    this.server.emit('connection', socket) // documented way to give tls.Server a connection
  }

  /** For handshakes from now on. Must have passed `contextOptions` and createSecureContext before. */
  renew(tls: PortTls): void {
    this.server.setSecureContext(contextOptions(tls))
  }

  /** Closes connections that are still in their handshake. */
  close(): void {
    for (const socket of this.pendingHandshakes) socket.destroy()
  }

  private agreed(socket: TLSSocket): void {
    this.pendingHandshakes.delete(under(socket))
    const why = socket.alpnProtocol !== 'h2' ? 'the client does not offer the protocol h2 (ALPN)' : null
    if (why !== null) this.refuse(socket, 'info', why)
    else if (this.isNamed(socket)) this.options.onSocket(socket)
  }

  /** Resumed connections come here, too: their session holds the certificate they showed before. */
  private isNamed(socket: TLSSocket): boolean {
    if (!this.asksForCertificate) return true
    const certificate = socket.getPeerX509Certificate()
    if (!socket.authorized || certificate === undefined) {
      this.refuse(socket, 'warning', 'the client has shown no certificate')
      return false
    }
    if (this.san === '' || holdsName(certificate, this.san)) return true
    const names = certificate.subjectAltName?.slice(0, NAMES_SHOWN_MAX) ?? 'no name'
    const error = `the certificate holds ${names}, not ${this.san}`
    this.refuse(socket, 'warning', `error validating client: ${error}`)
    return false
  }

  private refuse(socket: TLSSocket, level: 'warning' | 'info', why: string): void {
    this.options.onRefused(level, `${why}${from(socket)}`)
    socket.destroy()
  }

  private failed(error: NodeJS.ErrnoException, socket: TLSSocket): void {
    const code = error.code ?? error.message
    const refused = socket.authorizationError as unknown as string | null // a code, whatever its type says
    if (refused) {
      this.options.onRefused('warning', `the client's certificate is not accepted: ${refused}${from(socket)}`)
    } else if (code === 'ERR_SSL_PEER_DID_NOT_RETURN_A_CERTIFICATE') {
      this.options.onRefused('warning', `the client has shown no certificate${from(socket)}`)
    } else if (code === 'ERR_TLS_HANDSHAKE_TIMEOUT') {
      this.options.onRefused(
        'info',
        `a TLS handshake took longer than ${this.options.handshakeMs} ms${from(socket)}`,
      )
    } else if (code !== 'ECONNRESET' && code !== 'EPIPE') {
      this.options.onRefused('info', `a TLS handshake failed: ${describeError(error)}${from(socket)}`)
    } // else the client went away, as port probes do
    socket.destroy()
  }

  private dropOldest(): void {
    const [oldest] = this.pendingHandshakes
    this.pendingHandshakes.delete(oldest)
    this.options.onRefused('info', `more than ${this.options.handshakesMax} TLS handshakes are under way`)
    oldest.destroy()
  }
}

/** Throws nothing by itself; createSecureContext says whether it can be used. */
export function contextOptions({ cert, key, clientCa }: PortTls): SecureContextOptions {
  return {
    cert,
    key,
    minVersion: 'TLSv1.2',
    secureOptions: constants.SSL_OP_NO_RENEGOTIATION,
    // Node's own copy of the public roots stands in where the system has none.
    ...(clientCa !== null && { ca: [...new Set([...roots(), ...clientCa])] }),
  }
}

function roots(): string[] {
  return [...getCACertificates('default'), ...getCACertificates('system')]
}

/** As Go compares: alternative names only, a star stands for one whole label, addresses with addresses. */
function holdsName(
  certificate: NonNullable<ReturnType<TLSSocket['getPeerX509Certificate']>>,
  name: string,
): boolean {
  const address = name.replace(/^\[(.*)\]$/, '$1')
  if (isIP(address) !== 0) return certificate.checkIP(address) !== undefined
  if (name.startsWith('.')) return false // to OpenSSL that would be any name below
  return certificate.checkHost(name, { subject: 'never', partialWildcards: false }) !== undefined
}

/** The socket below. Node keeps it in a field that is not documented; the tests hold that it is there. */
function under(socket: TLSSocket): Socket {
  return (socket as TLSSocket & { _parent: Socket })._parent
}

function from(socket: TLSSocket): string {
  const { remoteAddress } = under(socket)
  return remoteAddress === undefined ? '' : ` (from ${remoteAddress})`
}

function describeError(error: NodeJS.ErrnoException & { reason?: string }): string {
  return error.reason ?? error.message
}
