/**
 * Credentials that keep hold of the sockets they are used for, so that closing a connection closes it.
 *
 *     library    TCP ──► _createSecureConnector().connect(socket) ──► TLS ──► HTTP/2 settings ──► a client can close it
 *                                      └── held here ────────────────────────────────────────────────────► letGo
 *
 * @grpc/grpc-js 1.14.7 forgets a connection that its client is closed in the middle of: with a server that accepts and
 * says nothing, each attempt would leave a socket open for good. The method has an underscore but is the only place where
 * the library shows a socket. Gives up: a TCP connect that nobody answers, which the kernel ends after two minutes.
 */
import type { Socket } from 'node:net'
import { ChannelCredentials } from '@grpc/grpc-js'

type Connect = ChannelCredentials['_createSecureConnector']

export class HeldCredentials extends ChannelCredentials {
  private readonly inner: ChannelCredentials
  private readonly sockets = new Set<Socket>() // one, or as many as the name has addresses
  private isOver = false

  constructor(inner: ChannelCredentials) {
    super()
    this.inner = inner
  }

  letGo(): void {
    this.isOver = true
    for (const socket of this.sockets) socket.destroy()
  }

  override _isSecure(): boolean {
    return this.inner._isSecure()
  }

  override _equals(other: ChannelCredentials): boolean {
    return other === this
  }

  override _createSecureConnector(...args: Parameters<Connect>): ReturnType<Connect> {
    const connector = this.inner._createSecureConnector(...args)
    return {
      connect: (socket) => {
        this.hold(socket)
        return connector.connect(socket)
      },
      waitForReady: () => connector.waitForReady(),
      getCallCredentials: () => connector.getCallCredentials(),
      destroy: () => connector.destroy(),
    }
  }

  private hold(socket: Socket): void {
    this.sockets.add(socket)
    socket.once('close', () => this.sockets.delete(socket))
    if (this.isOver) socket.destroy()
  }
}
