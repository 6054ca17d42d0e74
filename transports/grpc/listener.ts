/**
 * A TCP port or a unix socket whose connections go to a frontend. Every worker listens on the same port and the
 * kernel deals the connections out (SO_REUSEPORT); a unix socket cannot be shared, so one worker has it to itself.
 *
 *     kernel ─┬─ worker 0: listener ── socket ──► frontend
 *             └─ worker 1: listener ── socket ──► frontend
 *
 * Gives up: even shares. The kernel deals by a hash of the addresses, so few connections can land on one
 * worker. A port shared this way can be shared with a stranger, too; who starts workers claims it first (ports.ts).
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { ConfigurationError } from '../../engine/runtime/errors.ts'

/** Open connections of one listener; beyond: a connection is closed as soon as it is accepted. */
export const CONNECTIONS_MAX = 10_000

/** Where Node can share a port between listeners; elsewhere one worker listens. */
export const canSharePort = process.platform === 'linux' || process.platform === 'freebsd'

/** Of a unix socket. Node would cut a longer path without a word, and listen somewhere else. */
export const PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103

const PEER_SILENT_MS = 15_000 // then TCP probes the peer, so connections of vanished machines end

/** `port` 0 is any free one. `path` is a unix socket's, whose file must not exist yet. */
export type Place = { host: string; port: number } | { path: string }

export type ListenOptions = Place & {
  onSocket: (socket: Socket) => void
  /** Told of connections that could not be served: too many, or out of file descriptors. */
  onDrop?: (why: string) => void
  connectionsMax?: number
}

export interface Listener {
  readonly port: number // 0 for a unix socket
  /** No new connections from now on; those there are belong to the frontend and stay. A socket's file is removed. */
  stop(): void
}

/** Listens, or throws an OperatorError that says why it cannot. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const { onSocket, onDrop, connectionsMax = CONNECTIONS_MAX } = options
  if ('path' in options && Buffer.byteLength(options.path) > PATH_BYTES_MAX) {
    throw await pathError(new Error('the path is too long'), options.path)
  }
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
      else if ('path' in options) pathError(error, options.path).then(reject)
      else reject(portError(error, options.host, options.port))
    })
    const place =
      'path' in options
        ? { path: options.path }
        : { host: options.host, port: options.port, reusePort: canSharePort }
    server.listen(place, () => {
      isListening = true
      resolve(toListener(server))
    })
  })
}

function toListener(server: Server): Listener {
  const stop = () => {
    process.off('exit', stop)
    server.close()
  }
  const address = server.address()
  if (typeof address !== 'string') return { port: (address as AddressInfo).port, stop }
  process.once('exit', stop) // a worker that throws: its successor needs the path free before it starts
  return { port: 0, stop }
}

function portError(error: NodeJS.ErrnoException, host: string, port: number): ConfigurationError {
  const where = `${host}:${port}`
  if (error.code === 'EADDRINUSE') {
    const what = 'another program listens on this gRPC port.'
    const fix = 'Stop it, or set GRPC_PORT to a free one.'
    return new ConfigurationError({ code: 'PORT_IN_USE', where, what, fix }, { cause: error })
  }
  if (error.code === 'EACCES') {
    const what = 'this user may not listen on this gRPC port.'
    const fix = 'Set GRPC_PORT to 1024 or more.'
    return new ConfigurationError({ code: 'PORT_FORBIDDEN', where, what, fix }, { cause: error })
  }
  const what = `cannot listen for gRPC: ${error.message}.`
  const fix = 'Set GRPC_HOST to an address of this machine.'
  return new ConfigurationError({ code: 'LISTEN_FAILED', where, what, fix }, { cause: error })
}

/** Spec 5.6 has a file that exists stop the start, also a dead one; the remedy differs. */
async function pathError(error: NodeJS.ErrnoException, path: string): Promise<ConfigurationError> {
  const what = `Failed to listen for gRPC on '${path}': ${error.message}.`
  if (error.code !== 'EADDRINUSE') {
    const fix = `Set GRPC_UDS to a path of at most ${PATH_BYTES_MAX} bytes, in a folder that this user may write.`
    return new ConfigurationError({ code: 'LISTEN_FAILED', what, fix }, { cause: error })
  }
  const fix = (await answers(path))
    ? 'A process answers there: stop it, or set GRPC_UDS to another path.'
    : 'Nobody answers there: if a killed process left the file behind, remove it, else set GRPC_UDS to another path.'
  return new ConfigurationError({ code: 'SOCKET_IN_USE', what, fix }, { cause: error })
}

/** Whether a process accepts connections there. Its kernel answers for it, so this ends at once. */
function answers(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
