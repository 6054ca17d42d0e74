/**
 * One socket to one Redis: opened and greeted once, then text out and replies in.
 *
 *     TCP, TLS or unix ── AUTH, SELECT, PING, ROLE in one write ── right answers ──► open ──► ended(reason), once
 *
 * All plain sockets of a thread read into one buffer, which spares a stream's chunk and 64 KiB of garbage per read. A reply is
 * handed on before the next read, and nothing keeps a view of the buffer. TLS has no such way in Node; its sockets give
 * their own chunks.
 */
import { connect, type Socket } from 'node:net'
import { connect as connectTls } from 'node:tls'
import { errorText } from '../connect-retry.ts'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'
import { commandText, ErrorReply, type Reply, type ReplySink, RespReader } from './resp.ts'

export interface SocketOptions {
  address: RedisAddress
  tls: TlsTo | null // null = plain
  isMasterOnly: boolean // a server that says it is a replica is no use
  timeoutMs: number // from the first packet to the last answer to the greeting
  sink: ReplySink // of what comes after the greeting
  onEnded: (reason: string) => void // also when it never was open
}

const KEEPALIVE_MS = 10_000
const CLOSE_MS = 100 // to a peer that does not close its side
const READ_BYTES = 64 * 1024 // as much as libuv reads at once

let shared: Buffer | null = null // of this thread

export class RedisSocket {
  isOpen = false
  readonly ended: Promise<void>
  private readonly options: SocketOptions
  private readonly socket: Socket
  private readonly isSecure: boolean
  private readonly reader: RespReader
  private reason = '' // the first is the cause, later ones only its consequences

  constructor(options: SocketOptions) {
    this.options = options
    this.isSecure = options.tls !== null
    this.reader = new RespReader(options.sink)
    this.socket =
      options.tls === null ? this.plain(options.address) : this.secure(options.address, options.tls)
    this.socket.on('error', (error) => this.because(errorText(error)))
    this.ended = new Promise((resolve) => {
      this.socket.once('close', () => {
        this.isOpen = false
        resolve()
        options.onEnded(this.reason || 'closed by the other side')
      })
    })
  }

  /** Resolves when the server has taken the greeting. Rejects with the reason, once the socket is closed. */
  async open(): Promise<void> {
    const { tls, timeoutMs, sink } = this.options
    const timer = setTimeout(() => this.end('no answer'), timeoutMs)
    const commands = handshake(this.options)
    const replies: Reply[] = []
    await new Promise<void>((resolve) => {
      const take = (reply: Reply) => {
        replies.push(reply)
        if (replies.length === commands.length) resolve()
      }
      this.reader.sink = { integer: take, reply: take }
      this.socket.once(tls === null ? 'connect' : 'secureConnect', () => {
        this.socket.setNoDelay(true)
        this.socket.setKeepAlive(true, KEEPALIVE_MS)
        this.write(commands.map(commandText).join(''))
      })
      void this.ended.then(resolve)
    })
    clearTimeout(timer)
    const wrong = replies.length === commands.length ? wrongAnswer(commands, replies) : ''
    if (wrong !== '') this.end(wrong)
    if (this.socket.destroyed) {
      await this.ended
      throw new Error(this.reason || 'closed by the other side')
    }
    this.reader.sink = sink
    this.isOpen = true
  }

  /** False: it could not all be handed to the kernel yet, so bytes must stay as they are. */
  write(commands: string | Buffer): boolean {
    if (this.isSecure && typeof commands !== 'string') {
      this.socket.write(Buffer.from(commands)) // TLS never takes bytes at once, and a copy is smaller than new memory
      return true
    }
    this.socket.write(commands)
    return this.socket.writableLength === 0
  }

  /** What is written in this turn leaves in one packet. */
  cork(): void {
    if (this.socket.writableCorked > 0) return
    this.socket.cork()
    process.nextTick(() => this.socket.uncork())
  }

  /** At once: what has not been read is not read any more. */
  end(reason: string): void {
    this.because(reason)
    this.reader.stop()
    this.socket.destroy()
  }

  /** When what was written is on its way, and the other side has closed too. */
  async close(): Promise<void> {
    if (!this.isOpen) this.end('closed')
    this.because('closed')
    this.reader.stop()
    this.socket.end()
    const timer = setTimeout(() => this.socket.destroy(), CLOSE_MS)
    await this.ended
    clearTimeout(timer)
  }

  private because(reason: string): void {
    if (this.reason === '') this.reason = reason
  }

  private plain({ path, host, port, family }: RedisAddress): Socket {
    shared ??= Buffer.allocUnsafeSlow(READ_BYTES)
    const onread = {
      buffer: shared,
      callback: (size: number, bytes: Uint8Array) => this.read(bytes as Buffer, size),
    }
    return connect({ ...(path === '' ? { host, port, family } : { path }), onread })
  }

  private secure({ path, host, port, family }: RedisAddress, tls: TlsTo): Socket {
    const where = path === '' ? { host, port, family } : { path }
    const socket = connectTls({ ...where, ...tls(path === '' ? host : '') })
    return socket.on('data', (bytes) => this.read(bytes, bytes.length))
  }

  private read(bytes: Buffer, size: number): boolean {
    if (!this.reader.read(bytes, size)) this.end(`not a Redis server: ${this.reader.fault}`)
    return true
  }
}

function handshake({ address, isMasterOnly }: SocketOptions): (string | number)[][] {
  const { username, password, db } = address
  const commands: (string | number)[][] = []
  if (password !== '') commands.push(username === '' ? ['AUTH', password] : ['AUTH', username, password])
  if (db !== 0) commands.push(['SELECT', db])
  commands.push(['PING'])
  if (isMasterOnly) commands.push(['ROLE'])
  return commands
}

/** What is wrong with the answers; '' = nothing. The first is the cause of those behind it. */
function wrongAnswer(commands: (string | number)[][], replies: Reply[]): string {
  for (let i = 0; i < replies.length; i++) {
    const [name] = commands[i]
    const reply = replies[i]
    if (name === 'ROLE') {
      // who may not ask for the role is told by the first hit (READONLY)
      if (reply instanceof ErrorReply && reply.text.startsWith('NOPERM')) continue
      if (Array.isArray(reply) && reply[0] !== 'master') return `it is a ${String(reply[0])}, not a master`
    }
    if (reply instanceof ErrorReply) return reply.text
    if (name === 'PING' && reply !== 'PONG') return `PING was answered ${JSON.stringify(reply)}`
  }
  return ''
}
