/** Opens connections to `grpc://host:port` and `http://host:port/path`. */
import { connect, type Socket } from 'node:net'
import type { Connection, Listener } from './connection.ts'
import { GrpcConnection } from './grpc-connection.ts'
import { HttpConnection } from './http-connection.ts'
import type { NextKey } from './keys.ts'
import type { Shape } from './requests.ts'

export interface Endpoint {
  protocol: 'grpc' | 'http'
  host: string
  port: number
  path: string // of http
}

export interface DialOptions {
  endpoint: Endpoint
  streams: number
  deadline: string
  shape: Shape
  nextKey: NextKey
}

const CONNECT_MS_MAX = 5_000
const READ_BYTES = 262_144
const shared = Buffer.allocUnsafeSlow(READ_BYTES) // shared by all connections: a read is synchronous

/** Opens a connection. Rejects with the error of the socket. */
export async function dial(options: DialOptions, listener: Listener): Promise<Connection> {
  const { protocol, host, port, path } = options.endpoint
  let read: (chunk: Buffer) => void = () => {}
  const callback = (count: number) => {
    read(shared.subarray(0, count))
    return true
  }
  const socket = connect({ host, port, noDelay: true, onread: { buffer: shared, callback } })
  await waitForConnect(socket)
  const authority = `${host}:${port}`
  const connection =
    protocol === 'grpc'
      ? new GrpcConnection(socket, { ...options, authority }, listener)
      : new HttpConnection(socket, { ...options, authority, path }, listener)
  read = (chunk) => connection.read(chunk)
  socket.on('error', (error) => connection.onClosed(error.message))
  socket.on('close', () => connection.onClosed('closed by the server'))
  return connection
}

function waitForConnect(socket: Socket): Promise<void> {
  return new Promise((resolve, reject) => {
    const timer = setTimeout(() => socket.destroy(new Error('timeout')), CONNECT_MS_MAX)
    socket.once('error', (error) => {
      clearTimeout(timer)
      reject(error)
    })
    socket.once('connect', () => {
      clearTimeout(timer)
      socket.removeAllListeners('error')
      resolve()
    })
  })
}
