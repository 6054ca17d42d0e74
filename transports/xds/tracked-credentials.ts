/**
 * What becomes of a TCP connection to the management server, and that closing it closes it.
 *
 *     library: TCP ──► tunnel, where a proxy is between ──► TLS, where asked for ──► library: HTTP/2 settings, calls
 *               └── held from here on ─────────────────────────────────────────────────────────────► letGo
 *
 * @grpc/grpc-js 1.14.7 forgets a connection that its client is closed in the middle of: with a server that accepts and
 * says nothing, each attempt would leave a socket open for good. Its own proxy and TLS are not used, since the first
 * opens a socket of its own that nobody can close, and the second names IP addresses in SNI, which RFC 6066 forbids and
 * Node warns of. The method has an underscore but is the only place where the library shows a socket. Gives up: a TCP
 * connect that nobody answers, which the kernel ends after two minutes.
 */
import type { Socket } from 'node:net'
import { CallCredentials, ChannelCredentials } from '@grpc/grpc-js'
import { type Tls, throughTls } from './handshake.ts'
import { type Tunnel, throughProxy } from './tunnel.ts'

type Connector = ReturnType<ChannelCredentials['_createSecureConnector']>

/** What is between TCP and HTTP/2, outermost first; null = nothing. */
export interface Layers {
  tunnel: Tunnel | null
  tls: Tls | null
}

export class TrackedCredentials extends ChannelCredentials {
  private readonly layers: Layers
  private readonly sockets = new Set<Socket>() // one, or as many as the name has addresses
  private isOver = false

  constructor(layers: Layers) {
    super()
    this.layers = layers
  }

  destroySockets(): void {
    this.isOver = true
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
    this.hold(socket)
    const { tunnel, tls } = this.layers
    if (tunnel !== null) await throughProxy(socket, tunnel)
    if (tls === null) return { socket, secure: false }
    return { socket: await throughTls(socket, tls), secure: true }
  }

  private hold(socket: Socket): void {
    this.sockets.add(socket)
    socket.once('close', () => this.sockets.delete(socket))
    if (this.isOver) socket.destroy()
  }
}
