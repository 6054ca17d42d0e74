/**
 * A TCP port whose connections go to a frontend. Every worker listens on the same port and the kernel deals
 * the connections out (SO_REUSEPORT).
 *
 *     kernel ─┬─ worker 1: listener ── socket ──► frontend
 *             └─ worker 2: listener ── socket ──► frontend
 *
 * Gives up: even shares. The kernel deals by a hash of the addresses, so few connections can land on one
 * worker. A port shared this way can be shared with a stranger, too; who starts workers binds it exclusively
 * first.
 */
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { OperatorError } from '../../engine/errors.ts'

/** Open connections of one listener; beyond: a connection is closed as soon as it is accepted. */
export const CONNECTIONS_MAX = 10_000

/** Where Node can share a port between listeners; elsewhere one worker listens. */
export const canSharePort = process.platform === 'linux' || process.platform === 'freebsd'

const PEER_SILENT_MS = 15_000 // then TCP probes the peer, so connections of vanished machines end

export interface ListenOptions {
  host: string
  port: number // 0 = any free one
  onSocket: (socket: Socket) => void
  /** Told of connections that could not be served: too many, or out of file descriptors. */
  onDrop?: (why: string) => void
  connectionsMax?: number
}

export interface Listener {
  readonly port: number
  /** No new connections from now on; those there are belong to the frontend and stay. */
  stop(): void
}

/** Listens, or throws an OperatorError that says why it cannot. */
export function listen(options: ListenOptions): Promise<Listener> {
  const { host, port, onSocket, onDrop, connectionsMax = CONNECTIONS_MAX } = options
  const server = createServer(
    { noDelay: true, keepAlive: true, keepAliveInitialDelay: PEER_SILENT_MS },
    onSocket,
  )
  server.maxConnections = connectionsMax
  server.on('drop', () => onDrop?.(`more than ${connectionsMax} connections are open`))
  return new Promise((resolve, reject) => {
    let isListening = false
    server.on('error', (error) => {
      if (isListening) onDrop?.(error.message)
      else reject(listenError(error, host, port))
    })
    server.listen({ host, port, reusePort: canSharePort }, () => {
      isListening = true
      resolve(listenerOf(server))
    })
  })
}

function listenerOf(server: Server): Listener {
  return { port: (server.address() as AddressInfo).port, stop: () => server.close() }
}

function listenError(error: NodeJS.ErrnoException, host: string, port: number): OperatorError {
  const where = `${host}:${port}`
  if (error.code === 'EADDRINUSE') {
    const what = 'another program listens on this gRPC port.'
    return new OperatorError(
      { code: 'PORT_IN_USE', where, what, fix: 'Stop it, or set GRPC_PORT to a free one.' },
      { cause: error },
    )
  }
  if (error.code === 'EACCES') {
    const what = 'this user may not listen on this gRPC port.'
    return new OperatorError(
      { code: 'PORT_FORBIDDEN', where, what, fix: 'Set GRPC_PORT to 1024 or more.' },
      { cause: error },
    )
  }
  const what = `cannot listen for gRPC: ${error.message}.`
  return new OperatorError(
    { code: 'LISTEN_FAILED', where, what, fix: 'Set GRPC_HOST to an address of this machine.' },
    { cause: error },
  )
}
