/**
 * One socket to one Redis: opened with a handshake, then bytes out and replies in.
 *
 *     TCP, TLS or unix ── AUTH, SELECT, PING, ROLE in one write ── valid replies ──► open ──► ended(reason), once
 *
 * All plain sockets of a thread read into one buffer, which saves 64 KiB of garbage per read. Replies are delivered before the
 * next read and nothing keeps a view of the buffer. Node has no such option for TLS; its sockets allocate their own chunks.
 */
import { connect, type Socket } from 'node:net'
import { connect as tlsConnect } from 'node:tls'
import { errorText } from '../connect-retry.ts'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'
import { commandText, cutText, ErrorReply, type Reply, type ReplySink, RespReader } from './resp.ts'

export interface SocketOptions {
  address: RedisAddress
  tls: TlsTo | null // null = plain
  isMasterOnly: boolean // a replica is refused
  timeoutMs: number // from the first packet to the last reply of the handshake
  sink: ReplySink // of replies after the handshake
  onEnded: (reason: string) => void // also if it never opened
}

const KEEPALIVE_MS = 10_000
const CLOSE_MS_MAX = 100 // then a peer that has not closed its side is cut off
const READ_BYTES = 64 * 1024 // what libuv reads at most

let readBuffer: Buffer | null = null // of this thread

export class RedisSocket {
  isOpen = false
  readonly ended: Promise<void>
  private readonly options: SocketOptions
  private readonly socket: Socket
  private readonly isSecure: boolean
  private readonly reader: RespReader
  private reason = '' // the first one: later ones are its consequences

  constructor(options: SocketOptions) {
    this.options = options
    this.isSecure = options.tls !== null
    this.reader = new RespReader(options.sink)
    this.socket =
      options.tls === null
        ? this.connectPlain(options.address)
        : this.connectTls(options.address, options.tls)
    this.socket.on('error', (error) => this.setReason(errorText(error)))
    this.ended = new Promise((resolve) => {
      this.socket.once('close', () => {
        this.isOpen = false
        resolve()
        options.onEnded(this.reason || 'closed by the other side')
      })
    })
  }

  /** Resolves after the handshake. Rejects with the reason when the socket is closed. */
  async open(): Promise<void> {
    const { tls, timeoutMs, sink } = this.options
    const timer = setTimeout(() => this.end('no reply'), timeoutMs)
    const commands = handshake(this.options)
    const replies: Reply[] = []
    await new Promise<void>((resolve) => {
      const onReply = (reply: Reply) => {
        replies.push(reply)
        if (replies.length >= commands.length) resolve()
      }
      this.reader.sink = { integer: onReply, reply: onReply }
      this.socket.once(tls === null ? 'connect' : 'secureConnect', () => {
        this.socket.setNoDelay(true)
        this.socket.setKeepAlive(true, KEEPALIVE_MS)
        this.write(commands.map(commandText).join(''))
      })
      void this.ended.then(resolve)
    })
    clearTimeout(timer)
    const failure = replies.length < commands.length ? '' : findHandshakeError(commands, replies)
    if (failure !== '') this.end(failure)
    if (this.socket.destroyed) {
      await this.ended
      throw new Error(this.reason || 'closed by the other side')
    }
    this.reader.sink = sink
    this.isOpen = true
  }

  /** False: the kernel has not taken all bytes yet, so the buffer must stay unchanged. */
  write(commands: string | Buffer): boolean {
    if (this.isSecure && typeof commands !== 'string') {
      this.socket.write(Buffer.from(commands)) // TLS never writes synchronously, and a copy is smaller than a new buffer
      return true
    }
    this.socket.write(commands)
    return this.socket.writableLength === 0
  }

  /** Sends the writes of this turn in one packet. */
  cork(): void {
    if (this.socket.writableCorked > 0) return
    this.socket.cork()
    process.nextTick(() => this.socket.uncork())
  }

  /** Closes immediately; replies that have not been read are dropped. */
  end(reason: string): void {
    this.setReason(reason)
    this.reader.stop()
    this.socket.destroy()
  }

  /** Closes after the pending writes. Resolves when the other side has closed, too. */
  async close(): Promise<void> {
    if (!this.isOpen) this.end('closed')
    this.setReason('closed')
    this.reader.stop()
    this.socket.end()
    const timer = setTimeout(() => this.socket.destroy(), CLOSE_MS_MAX)
    await this.ended
    clearTimeout(timer)
  }

  private setReason(reason: string): void {
    if (this.reason === '') this.reason = reason
  }

  private connectPlain({ path, host, port, family }: RedisAddress): Socket {
    readBuffer ??= Buffer.allocUnsafeSlow(READ_BYTES)
    const onread = {
      buffer: readBuffer,
      callback: (size: number, bytes: Uint8Array) => this.read(bytes as Buffer, size),
    }
    return connect({ ...(path === '' ? { host, port, family } : { path }), onread })
  }

  private connectTls({ path, host, port, family }: RedisAddress, tls: TlsTo): Socket {
    const where = path === '' ? { host, port, family } : { path }
    const socket = tlsConnect({ ...where, ...tls(path === '' ? host : '') })
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

/** The first error in the replies, which is the cause of later ones; '' = none. There is at least one reply per command. */
function findHandshakeError(commands: (string | number)[][], replies: Reply[]): string {
  for (let i = 0; i < commands.length; i++) {
    const [name] = commands[i]
    const reply = replies[i]
    if (name === 'ROLE') {
      // a user without the right to ROLE learns of a replica from the first hit (READONLY)
      if (reply instanceof ErrorReply && reply.text.startsWith('NOPERM')) continue
      if (Array.isArray(reply) && reply[0] !== 'master')
        return `it is a ${cutText(String(reply[0]))}, not a master`
    }
    if (reply instanceof ErrorReply) return reply.text
    if (name === 'PING' && reply !== 'PONG')
      return `unexpected reply to PING: ${cutText(JSON.stringify(reply))}`
  }
  return replies.length > commands.length ? 'more replies than commands' : ''
}
