/**
 * The layers between TCP and HTTP/2 on a connection to the management server, and the means to close its sockets.
 *
 *     library: TCP ──► CONNECT, if there is a proxy ──► TLS, if configured ──► library: HTTP/2 settings, calls
 *               └── tracked from here on ──────────────────────────────────────────────► destroySockets
 *
 * @grpc/grpc-js 1.14.7 does not close a connection whose client is closed while it is being established: with a server that
 * accepts and sends nothing, each attempt would leak a socket. Its proxy and TLS support are not used: the former opens a
 * socket that cannot be closed from outside, the latter sends IP addresses as SNI, which RFC 6066 forbids and Node warns of.
 * `_createSecureConnector` is private by name but the only place where the library exposes the socket. Not covered: a TCP
 * connect without an answer, which the kernel ends after two minutes.
 */
import { isIP, type Socket } from 'node:net'
import { connect, type SecureContext } from 'node:tls'
import { CallCredentials, ChannelCredentials } from '@grpc/grpc-js'
import { sendConnect } from '../../engine/runtime/connect-tunnel.ts'

const RESPONSE_HEAD_BYTES_MAX = 16_384 // of a proxy

type Connector = ReturnType<ChannelCredentials['_createSecureConnector']>

/** The layers between TCP and HTTP/2, outermost first; null = none. */
export interface Layers {
  tunnel: Tunnel | null
  tls: Tls | null
}

interface Tunnel {
  to: string // host:port of the management server
  authorization: string // '' = none
}

interface Tls {
  context: SecureContext
  name: string // that the certificate must contain
}

export class TrackedCredentials extends ChannelCredentials {
  private readonly layers: Layers
  private readonly sockets = new Set<Socket>() // one per address of the name
  private readonly closing = new AbortController()

  constructor(layers: Layers) {
    super()
    this.layers = layers
  }

  destroySockets(): void {
    this.closing.abort()
    for (const socket of this.sockets) socket.destroy()
  }

  override _isSecure(): boolean {
    return this.layers.tls !== null
  }

  override _equals(other: ChannelCredentials): boolean {
    return other === this
  }

  override _createSecureConnector(): Connector {
    return {
      connect: (socket) => this.connect(socket),
      waitForReady: async () => {},
      getCallCredentials: () => CallCredentials.createEmpty(),
      destroy: () => {},
    }
  }

  private async connect(socket: Socket): ReturnType<Connector['connect']> {
    this.track(socket)
    const { tunnel, tls } = this.layers
    if (tunnel !== null) await openTunnel(socket, tunnel, this.closing.signal)
    if (tls === null) return { socket, secure: false }
    return { socket: await startTls(socket, tls), secure: true }
  }

  private track(socket: Socket): void {
    this.sockets.add(socket)
    socket.once('close', () => this.sockets.delete(socket))
    if (this.closing.signal.aborted) socket.destroy()
  }
}

/**
 * The connection then leads to the management server. Rejects unless the proxy responds with 200. The time limit is that of
 * the stream, which destroys the sockets.
 */
async function openTunnel(socket: Socket, { to, authorization }: Tunnel, signal: AbortSignal): Promise<void> {
  const status = await sendConnect(socket, {
    authority: to,
    authorization: authorization === '' ? null : authorization,
    headBytesMax: RESPONSE_HEAD_BYTES_MAX,
    signal,
  })
  if (status === 200) return
  socket.destroy()
  throw new Error(`the proxy answers CONNECT with ${status}`)
}

/** `name` may be an IP address, which is verified but not sent as SNI (RFC 6066). Rejects if a certificate is refused. */
function startTls(socket: Socket, { context, name }: Tls): Promise<Socket> {
  const options = {
    socket,
    secureContext: context,
    host: name,
    ...(isIP(name) === 0 && { servername: name }),
    ALPNProtocols: ['h2'],
  }
  return new Promise((resolve, reject) => {
    const secured = connect(options, () => resolve(secured))
    secured.on('error', reject) // stays attached: the library adds its own listener later
  })
}
