/** Servers as statsd and Datadog have them, on 127.0.0.1, and what a test needs around them. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { expect, vi } from 'vitest'
import type { Log } from '../../../engine/runtime/messages.ts'
import type { Snapshot } from '../../../transports/metrics/sink.ts'

export function createSnapshot(parts: Partial<Snapshot>): Snapshot {
  return { counters: [], gauges: [], timers: [], ...parts }
}

/** A log that can be read. */
export function notedLog(): { log: Log; lines: string[] } {
  const lines: string[] = []
  return { log: (level, message) => lines.push(`${level}: ${message}`), lines }
}

/** Waits for what other threads and sockets do. */
export function eventually(check: () => void): Promise<void> {
  return vi.waitFor(check, { timeout: 10_000, interval: 20 })
}

/** All that a stream server has read, over all its connections. */
export class StreamPeer {
  private readonly chunks: Buffer[] = []
  readonly sockets: Socket[] = []
  private server: Server | null = null
  private readonly readsNothing: boolean

  constructor(readsNothing = false) {
    this.readsNothing = readsNothing
  }

  /** On a port of its choice, or on that one again. */
  async open(at: number | string = 0): Promise<number> {
    this.server = createServer((socket) => {
      this.sockets.push(socket)
      socket.on('error', () => {})
      if (this.readsNothing) socket.pause()
      else socket.on('data', (bytes) => this.chunks.push(bytes))
    })
    if (typeof at === 'string') this.server.listen(at)
    else this.server.listen(at, '127.0.0.1')
    await once(this.server, 'listening')
    return typeof at === 'string' ? 0 : (this.server.address() as AddressInfo).port
  }

  get received(): Buffer {
    return Buffer.concat(this.chunks)
  }

  get lines(): string[] {
    return this.received.toString().split('\n').slice(0, -1)
  }

  async close(): Promise<void> {
    const { server } = this
    if (server === null) return
    this.server = null
    for (const socket of this.sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}

/** Datagrams, one by one. */
export async function datagramPeer(port = 0) {
  const socket = createSocket('udp4')
  const datagrams: string[] = []
  socket.on('message', (bytes) => datagrams.push(bytes.toString()))
  socket.bind(port, '127.0.0.1')
  await once(socket, 'listening')
  return {
    port: socket.address().port,
    datagrams,
    lines: () => datagrams.flatMap((datagram) => datagram.split('\n').slice(0, -1)),
    close: () => new Promise<void>((resolve) => socket.close(resolve)),
  }
}

/** What a peer that adds up counters has, by name. */
export function sums(lines: readonly string[]): Record<string, number> {
  const totals: Record<string, number> = {}
  for (const line of lines) {
    const [, name, value] = /^(.*):(\d+)\|c/.exec(line) ?? []
    expect(name, `a counter: ${line.slice(0, 200)}`).toBeDefined()
    totals[name] = (totals[name] ?? 0) + Number(value)
  }
  return totals
}
