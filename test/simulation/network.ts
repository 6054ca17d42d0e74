/**
 * Connections between the product's sockets and simulated servers, as byte streams with delays and faults.
 *
 *     socket.write ──► bytes on their way, in order ──► server.read ──► replies, cut at any byte, in order ──► socket reads
 *                          held while the server is paused                held while the network is partitioned
 *
 * Like a kernel, a socket may take bytes later than they are written, and bytes already on their way reach a server although the
 * client has closed its socket: then commands run without anybody who reads the replies.
 */
import { EventEmitter } from 'node:events'
import type { Random } from './random.ts'
import { NO_CHANNEL, type VirtualTime } from './virtual-time.ts'

export type Trace = ((text: string) => void) | null

/** One side of a server's protocol. */
export interface Protocol {
  /** Reads bytes of a connection; returns the bytes of the replies. `inbox` keeps what is incomplete. */
  read(inbox: Inbox, bytes: Buffer): Buffer
  /** The process ends: what it keeps in memory is lost. */
  restart(): void
}

/** What a server keeps of one connection. */
export interface Inbox {
  partial: Buffer
}

const SPLIT_SHARE = 0.3 // of replies
const BACKPRESSURE_SHARE = 0.05 // of writes
const PIECES_MAX = 4

export interface Surroundings {
  time: VirtualTime
  random: Random
  trace: Trace
  /** Error replies to trips with hits, one after the other, after which no hits may be sent; 0 = any number. */
  failuresInRow: number
  /** Hits were sent after so many. */
  onSentAgain: (text: string) => void
}

const PROMPT_MS_MAX = 20 // below any operation timeout: slower trips have failed before their replies, in another order
const HITS = /INCRBY\r\n\$\d+\r\n[^\r]+\r\n\$\d+\r\n[1-9]/ // not a probe, which adds 0

/** Whether all replies are errors that end a trip; a missing script is sent and the trip goes on. */
function areErrors(replies: Buffer): boolean {
  const lines = replies.toString('latin1').trimEnd().split('\r\n')
  return lines.every((line) => line.startsWith('-') && !line.startsWith('-NOSCRIPT'))
}

/** A server and the network to it. */
export class Server {
  readonly name: string
  readonly protocol: Protocol
  readonly around: Surroundings
  isDown = false // connections are refused
  isPaused = false // accepts connections, runs nothing
  isPartitioned = false // nothing passes in either direction
  isMute = false // runs commands; its replies do not pass
  delayMs = 0 // added to each direction
  readonly links = new Set<Link>()
  private held: (() => void)[] = [] // arrivals, until the server or the network works again

  constructor(name: string, protocol: Protocol, around: Surroundings) {
    this.name = name
    this.protocol = protocol
    this.around = around
  }

  hold(arrival: () => void): void {
    this.held.push(arrival)
  }

  /** What was held arrives now, in order. */
  release(): void {
    const { held } = this
    this.held = []
    for (const arrival of held) arrival()
  }

  latencyMs(): number {
    return this.around.random.between(0.05, 0.4) + this.delayMs
  }

  /** Every connection is reset by the server. */
  cutAll(): void {
    for (const link of [...this.links]) link.reset()
  }

  /** Every connection is forgotten by the network: nothing passes, neither side is told. */
  loseAll(): void {
    for (const link of this.links) link.isLost = true
  }

  /** Packets of lost connections are answered by resets. */
  resetLost(): void {
    for (const link of [...this.links]) if (link.isLost) link.reset()
  }
}

let linksCount = 0 // for traces

/** One connection. */
export class Link {
  readonly number = ++linksCount
  isLost = false
  private isReset = false // replies on their way are dropped
  private readonly server: Server
  private readonly socket: SimulatedSocket
  private readonly inbox: Inbox = { partial: Buffer.alloc(0) }
  private readonly toClient: number // channel
  private readonly onTheirWay: { bytes: Buffer; onRead: () => void }[] = [] // to the client, oldest first
  private toServerMs = 0 // arrival of the last bytes
  private toClientMs = 0
  private failedTrips = 0 // in a row, by error replies, that the client has read
  private isServerOpen = true
  private isClientOpen = true

  constructor(server: Server, socket: SimulatedSocket) {
    this.server = server
    this.socket = socket
    this.toClient = server.around.time.createChannel()
    server.links.add(this)
  }

  get name(): string {
    return `${this.server.name}#${this.number}`
  }

  /** Sends bytes of the client. */
  send(bytes: Buffer): void {
    const { time } = this.server.around
    const sentMs = time.nowMs
    this.toServerMs = Math.max(this.toServerMs, time.nowMs + this.server.latencyMs())
    time.happen(this.toServerMs, () => this.onServerBytes(bytes, sentMs))
  }

  /** The client writes, perhaps before the kernel takes the bytes. */
  checkWrite(text: string): void {
    const { failuresInRow, onSentAgain } = this.server.around
    if (failuresInRow > 0 && this.failedTrips >= failuresInRow && HITS.test(text))
      onSentAgain(`${this.name}, after ${this.failedTrips} failed trips in a row`)
  }

  private onServerBytes(bytes: Buffer, sentMs: number): void {
    const { server } = this
    if (this.isLost || !this.isServerOpen) return
    if (server.isPaused || server.isPartitioned) {
      server.hold(() => this.onServerBytes(bytes, sentMs))
      return
    }
    const replies = server.protocol.read(this.inbox, bytes)
    if (replies.length > 0) this.reply(replies, HITS.test(bytes.toString('latin1')) ? sentMs : null)
  }

  /** Sends bytes of the server, sometimes in several pieces. */
  private reply(bytes: Buffer, sentMs: number | null): void {
    const { random } = this.server.around
    const pieces = random.chance(SPLIT_SHARE) ? random.int(2, PIECES_MAX) : 1
    const hasFailed = areErrors(bytes)
    const { time } = this.server.around
    const onRead = (isLast: boolean) => {
      if (!hasFailed) this.failedTrips = 0
      else if (isLast && sentMs !== null && time.nowMs - sentMs <= PROMPT_MS_MAX) this.failedTrips++
    }
    let at = 0
    for (let piece = 1; piece <= pieces && at < bytes.length; piece++) {
      const end = piece === pieces ? bytes.length : random.int(at + 1, bytes.length)
      const part = bytes.subarray(at, end)
      this.sendToClient(part, () => onRead(end === bytes.length))
      at = end
    }
  }

  private sendToClient(bytes: Buffer, onRead: () => void): void {
    this.onTheirWay.push({ bytes, onRead })
    this.scheduleDelivery()
  }

  private scheduleDelivery(): void {
    const { server } = this
    const { time } = server.around
    this.toClientMs = Math.max(this.toClientMs, time.nowMs + server.latencyMs())
    time.arrive(this.toClientMs, this.toClient, () => this.deliver())
  }

  /** The oldest bytes on their way arrive. */
  private deliver(): void {
    if (this.isLost || this.isReset || !this.isClientOpen) return
    if (this.server.isPartitioned || this.server.isMute) {
      this.server.hold(() => this.scheduleDelivery())
      return
    }
    const { bytes, onRead } = this.onTheirWay.shift()!
    onRead()
    this.server.around.trace?.(`${this.name} < ${shown(bytes)}`)
    this.socket.receive(bytes)
  }

  /** The server, or something on the way, ends the connection: what it has not sent yet is lost. */
  reset(): void {
    const { random, time } = this.server.around
    this.server.links.delete(this)
    this.isReset = true
    if (random.chance(0.5)) this.isServerOpen = false // else commands on their way still run
    const reason = random.chance(0.5) ? 'read ECONNRESET' : ''
    time.arrive(time.nowMs + random.between(0, 0.5), this.toClient, () => {
      this.isClientOpen = false
      this.socket.fail(reason)
    })
  }

  /** The client has closed its socket. */
  close(): void {
    this.isClientOpen = false
    this.server.links.delete(this)
  }
}

/** The part of net.Socket that the stores use. */
export class SimulatedSocket extends EventEmitter {
  destroyed = false
  writableLength = 0
  writableCorked = 0
  private readonly server: Server
  private readonly link: Link
  private readonly onread: OnRead | null
  private unsent: (string | Buffer)[] = [] // bytes the kernel has not taken; buffers are those of the caller
  private hasOpened = false

  constructor(server: Server, onread: OnRead | null) {
    super()
    this.server = server
    this.onread = onread
    this.link = new Link(server, this)
    const { time } = server.around
    time.arrive(time.nowMs + server.latencyMs(), NO_CHANNEL, () => this.open())
  }

  private open(): void {
    const { server } = this
    if (this.destroyed || this.link.isLost) return
    if (server.isPartitioned) {
      const { time } = server.around
      server.hold(() => time.arrive(time.nowMs, NO_CHANNEL, () => this.open()))
    } else if (server.isDown) this.fail('connect ECONNREFUSED')
    else {
      this.hasOpened = true
      this.emit('connect')
    }
  }

  setNoDelay(): this {
    return this
  }

  setKeepAlive(): this {
    return this
  }

  setEncoding(): this {
    return this
  }

  cork(): void {
    this.writableCorked++
  }

  uncork(): void {
    this.writableCorked--
    if (this.writableCorked === 0 && this.unsent.length > 0) this.flush()
  }

  write(data: string | Buffer, encoding: BufferEncoding = 'utf8'): boolean {
    const { time, random } = this.server.around
    if (this.destroyed) return false
    this.link.checkWrite(typeof data === 'string' ? data : data.toString('latin1'))
    this.unsent.push(typeof data === 'string' ? Buffer.from(data, encoding) : data)
    this.writableLength += data.length
    if (this.writableCorked > 0 || this.unsent.length > 1) return false
    if (random.chance(BACKPRESSURE_SHARE))
      time.arrive(time.nowMs + random.between(0, 2), NO_CHANNEL, () => this.flush())
    else this.flush()
    return this.writableLength === 0
  }

  private flush(): void {
    if (this.destroyed || this.unsent.length === 0) return
    const bytes = Buffer.concat(this.unsent as Buffer[]) // read only now: the caller must have left its buffers unchanged
    this.unsent = []
    this.writableLength = 0
    this.server.around.trace?.(`${this.link.name} > ${shown(bytes)}`)
    this.link.send(bytes)
  }

  receive(bytes: Buffer): void {
    if (this.destroyed) return
    if (this.onread === null) this.emit('data', bytes.toString('latin1'))
    else {
      bytes.copy(this.onread.buffer)
      this.onread.callback(bytes.length, this.onread.buffer)
    }
  }

  /** Ends with an error, or with '' as if the other side had closed. */
  fail(reason: string): void {
    if (this.destroyed) return
    this.server.around.trace?.(`${this.link.name} ends: ${reason || 'closed by the server'}`)
    this.destroyed = true
    this.link.close()
    if (reason !== '') this.emit('error', new Error(reason))
    this.emit('close')
  }

  destroy(): this {
    if (this.destroyed) return this
    this.server.around.trace?.(`${this.link.name} is closed by the client`)
    this.destroyed = true
    this.link.close()
    const { time } = this.server.around
    time.arrive(time.nowMs, NO_CHANNEL, () => this.emit('close'))
    return this
  }

  end(): this {
    if (this.hasOpened) this.flush()
    return this.destroy()
  }
}

export interface OnRead {
  buffer: Buffer
  callback: (size: number, bytes: Buffer) => boolean
}

/** `net.connect` to servers by host name. */
export function createConnect(servers: readonly Server[]) {
  return ({ host, onread }: { host: string; onread?: OnRead }): SimulatedSocket => {
    const server = servers.find(({ name }) => name === host)
    if (server === undefined) throw new Error(`no simulated server is named ${host}`)
    return new SimulatedSocket(server, onread ?? null)
  }
}

const SHOWN_MAX = 160

function shown(bytes: Buffer): string {
  const text = bytes.toString('latin1').replaceAll('\r\n', ' ').trim()
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}… (${bytes.length} bytes)` : text
}
