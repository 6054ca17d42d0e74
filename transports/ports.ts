/**
 * Claims ports before workers share them.
 *
 * Workers listen with SO_REUSEPORT, and a port opened that way can be shared silently with another process that does the same.
 * Main therefore binds each port exclusively first, learns its number (for port 0), closes it and then starts the workers.
 * Another process can still take the port between closing and listening.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server } from 'node:net'
import { ConfigurationError } from '../engine/runtime/errors.ts'
import { listen } from './grpc/listener.ts'

export interface Address {
  variable: string // the setting that holds the port, for error texts
  host: string
  port: number // 0 = any free one
  onFailure?: (error: ConfigurationError) => void // makes this port optional
}

/** Stands for an optional port that could not be bound. */
export const NO_PORT = -1

/** The port number of each address, in order. Rejects with ConfigurationError if a required one cannot be bound. */
export async function claimPorts(addresses: Address[]): Promise<number[]> {
  const servers: (Server | null)[] = []
  try {
    for (const address of addresses) servers.push(await tryBind(address)) // all bound at the same time: two may be equal
    return servers.map((server) => (server ? (server.address() as AddressInfo).port : NO_PORT))
  } finally {
    await Promise.all(servers.map((server) => server && new Promise((closed) => server.close(closed))))
  }
}

/**
 * Checks that a unix socket can be created at `path`; rejects with ConfigurationError if not. A worker could not report it: an
 * error that ends a thread loses its class on the way to main.
 */
export async function claimSocket(path: string): Promise<void> {
  const listener = await listen({ path, onSocket: (socket) => socket.destroy() })
  listener.stop() // removes the file
}

async function tryBind(address: Address): Promise<Server | null> {
  try {
    return await bind(address)
  } catch (error) {
    if (!address.onFailure) throw error
    address.onFailure(error as ConfigurationError)
    return null
  }
}

async function bind({ variable, host, port }: Address): Promise<Server> {
  const server = createServer().listen({ host, port, exclusive: true })
  try {
    await once(server, 'listening')
    return server
  } catch (cause) {
    throw portError({ variable, host, port }, cause as NodeJS.ErrnoException)
  }
}

function portError({ variable, host, port }: Address, cause: NodeJS.ErrnoException): ConfigurationError {
  const where = `${variable}=${port}`
  if (cause.code === 'EADDRINUSE') {
    const fix = `Stop the other process, or choose another port with ${variable}.`
    return new ConfigurationError(
      { code: 'PORT_IN_USE', where, what: `${host}:${port} is already in use.`, fix },
      { cause },
    )
  }
  const what = `cannot listen on ${host}:${port}: ${cause.message}.`
  return new ConfigurationError(
    { code: 'LISTEN_FAILED', where, what, fix: 'Check the host and the port.' },
    { cause },
  )
}
