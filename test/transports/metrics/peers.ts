/** Servers like those of statsd and Datadog on 127.0.0.1, and a log and snapshots for sinks. */
import { createSocket } from 'node:dgram'
import { once } from 'node:events'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { StringDecoder } from 'node:string_decoder'
import type { Log } from '../../../engine/runtime/messages.ts'
import type { Snapshot } from '../../../transports/metrics/sink.ts'

export function createSnapshot(parts: Partial<Snapshot>): Snapshot {
  return { counters: [], gauges: [], timers: [], ...parts }
}

/** A log with its lines. */
export function notedLog(): { log: Log; lines: string[] } {
  const lines: string[] = []
  return { log: (level, message) => lines.push(`${level}: ${message}`), lines }
}

/** A stream server, with the bytes of all its connections. */
export class StreamPeer {
  private readonly chunks: Buffer[] = []
  private readonly decoder = new StringDecoder('utf8')
  private readonly readLines: string[] = []
  private lineRest = ''
  readonly sockets: Socket[] = []
  private server: Server | null = null
  private readonly readsNothing: boolean

  constructor(readsNothing = false) {
    this.readsNothing = readsNothing
  }

  /** On a free port, or on a given port or path. */
  async open(at: number | string = 0): Promise<number> {
    this.server = createServer((socket) => {
      this.sockets.push(socket)
      socket.on('error', () => {})
      if (this.readsNothing) socket.pause()
      else socket.on('data', (bytes) => this.read(bytes))
    })
    if (typeof at === 'string') this.server.listen(at)
    else this.server.listen(at, '127.0.0.1')
    await once(this.server, 'listening')
    return typeof at === 'string' ? 0 : (this.server.address() as AddressInfo).port
  }

  get received(): Buffer {
    return Buffer.concat(this.chunks)
  }

  /** Complete lines. Grows as more is read. */
  get lines(): readonly string[] {
    return this.readLines
  }

  private read(bytes: Buffer): void {
    this.chunks.push(bytes)
    const lines = (this.lineRest + this.decoder.write(bytes)).split('\n')
    this.lineRest = lines.pop()!
    this.readLines.push(...lines)
  }

  async close(): Promise<void> {
    const { server } = this
    if (server === null) return
    this.server = null
    for (const socket of this.sockets) socket.destroy()
    await new Promise((resolve) => server.close(resolve))
  }
}

/** A UDP server, with each datagram. */
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

/** The sums of counters by name. */
export function sums(lines: readonly string[]): Record<string, number> {
  const totals: Record<string, number> = {}
  for (const line of lines) {
    const [, name, value] = /^(.*):(\d+)\|c/.exec(line) ?? []
    if (name === undefined) throw new Error(`not a counter: ${line.slice(0, 200)}`)
    totals[name] = (totals[name] ?? 0) + Number(value)
  }
  return totals
}
