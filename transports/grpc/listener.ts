/**
 * A TCP port or a unix socket whose connections go to a frontend. Every worker listens on the same port, and the kernel
 * distributes the connections (SO_REUSEPORT). A unix socket cannot be shared, so one worker has it to itself.
 *
 *     kernel ─┬─ worker 0: listener ── socket ──► frontend
 *             └─ worker 1: listener ── socket ──► frontend
 *
 * Shares are not even: the kernel hashes addresses, so a few connections can all land on one worker. SO_REUSEPORT also
 * permits other processes of the same user to share the port, so main claims it exclusively first (ports.ts).
 */
import { type AddressInfo, connect, createServer, type Server, type Socket } from 'node:net'
import { ConfigurationError } from '../../engine/runtime/errors.ts'

/** Open connections of one listener; beyond, a connection is closed as soon as it is accepted. */
export const CONNECTIONS_MAX = 10_000

/** Whether Node can share a port between listeners; elsewhere one worker listens. */
export const canSharePort = process.platform === 'linux' || process.platform === 'freebsd'

/** Of a unix socket. Node truncates a longer path without an error and listens somewhere else. */
export const SOCKET_PATH_BYTES_MAX = process.platform === 'linux' ? 107 : 103

const TCP_KEEPALIVE_MS = 15_000 // after this silence TCP probes the peer, so connections to unreachable peers close

/** `port` 0 is any free one. `path` is that of a unix socket, which must not exist yet. */
export type ListenAddress = { host: string; port: number } | { path: string }

export type ListenOptions = ListenAddress & {
  onSocket: (socket: Socket) => void
  /** Called for connections that could not be served: too many, or out of file descriptors. */
  onDrop?: (reason: string) => void
  connectionsMax?: number
}

export interface Listener {
  readonly port: number // 0 for a unix socket
  /** Accepts no new connections; open ones belong to the frontend and stay. The file of a unix socket is removed. */
  stop(): void
}

/** Throws a ConfigurationError when it cannot listen. */
export async function listen(options: ListenOptions): Promise<Listener> {
  const { onSocket, onDrop, connectionsMax = CONNECTIONS_MAX } = options
  if ('path' in options && Buffer.byteLength(options.path) > SOCKET_PATH_BYTES_MAX) {
    throw await createPathError(new Error('the path is too long'), options.path)
  }
  const server = createServer(
    { noDelay: true, keepAlive: true, keepAliveInitialDelay: TCP_KEEPALIVE_MS },
    onSocket,
  )
  server.maxConnections = connectionsMax
  server.on('drop', () => onDrop?.(`more than ${connectionsMax} connections are open`))
  return new Promise((resolve, reject) => {
    let isListening = false
    server.on('error', (error) => {
      if (isListening) onDrop?.(error.message)
      else if ('path' in options) createPathError(error, options.path).then(reject)
      else reject(createPortError(error, options.host, options.port))
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
  process.once('exit', stop) // when a worker throws, its successor needs the path to be free
  return { port: 0, stop }
}

function createPortError(error: NodeJS.ErrnoException, host: string, port: number): ConfigurationError {
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

/** An existing file stops the start (spec 5.6), stale or not; the remedy differs. */
async function createPathError(error: NodeJS.ErrnoException, path: string): Promise<ConfigurationError> {
  const what = `Failed to listen for gRPC on '${path}': ${error.message}.`
  if (error.code !== 'EADDRINUSE') {
    const fix = `Set GRPC_UDS to a path of at most ${SOCKET_PATH_BYTES_MAX} bytes, in a folder that this user may write.`
    return new ConfigurationError({ code: 'LISTEN_FAILED', what, fix }, { cause: error })
  }
  const fix = (await acceptsConnections(path))
    ? 'A process is listening there: stop it, or set GRPC_UDS to another path.'
    : 'Nothing is listening there: if a killed process left the file behind, remove it, else set GRPC_UDS to another path.'
  return new ConfigurationError({ code: 'SOCKET_IN_USE', what, fix }, { cause: error })
}

/** Whether a process accepts connections there. The kernel answers, so this takes no time. */
function acceptsConnections(path: string): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(path)
    socket.once('connect', () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}
