/**
 * A proxy between a service and a real Redis that knows where commands and replies end, so that a fault hits one of them exactly.
 *
 *     service ──commands──► proxy ──► Redis        decide(command) says what happens to each command and its reply
 *             ◄──replies───   │
 *                             split      writes the replies that are ready in two pieces, cut at every byte position in turn
 *                             delayMs    holds replies back for this time
 *                             stall()    no bytes pass to the service until resume(); Redis executes what it has received
 *                             cut()      ends all connections, reset() with RST
 *                             refuse()   as well, and accepts none until accept()
 *
 *     decide returns      the command     the reply
 *     null                executed        Redis's own
 *     { reply }           not executed    these bytes
 *     { replaced }        executed        these bytes instead of Redis's own
 *     { cutAfter: n }     executed        its first n bytes, then the connection ends; with isReset by RST
 *     { drop: true }      not executed    the connection ends
 *
 * Replies keep the order of their commands, and none is sent twice. What waits for a slow reader is bounded by the commands in flight.
 */
import { connect, createServer, type Socket } from 'node:net'
import { freePort } from '../helpers/ports.ts'

export interface Command {
  args: readonly string[]
  number: number // of all commands of the proxy, from 0
}

export type Fault =
  | { reply: string }
  | { replaced: string }
  | { cutAfter: number; isReset?: boolean }
  | { drop: true }

export interface RespProxy {
  readonly port: number
  readonly address: string // 127.0.0.1:port
  commandsCount: number
  connectionsCount: number // ever accepted
  /** Hits of INCRBY and of add-hits.lua that were executed although the service got another reply. */
  hiddenHits: number
  decide: ((command: Command) => Fault | null) | null // null = everything passes
  isSplitting: boolean
  delayMs: number
  stall(): void
  resume(): void
  cut(): void
  reset(): void
  refuse(): Promise<void>
  accept(): Promise<void>
  stop(): Promise<void>
}

/** A command whose reply has not been passed on. */
interface Pending {
  args: readonly string[]
  fault: Fault | null
  reply: Buffer | null // null = not here yet
  dueMs: number
}

export async function startRespProxy(serverPort: number): Promise<RespProxy> {
  const port = await freePort()
  const links = new Set<Link>()
  const listener = createServer((client) => {
    proxy.connectionsCount++
    const link = new Link(proxy, client, connect(serverPort, '127.0.0.1'), () => links.delete(link))
    links.add(link)
    if (isStalled) link.isStalled = true
  })
  let isStalled = false
  const setStalled = (value: boolean) => {
    isStalled = value
    for (const link of links) {
      link.isStalled = value
      link.pass()
    }
  }
  const proxy: RespProxy = {
    port,
    address: `127.0.0.1:${port}`,
    commandsCount: 0,
    connectionsCount: 0,
    hiddenHits: 0,
    decide: null,
    isSplitting: false,
    delayMs: 0,
    stall: () => setStalled(true),
    resume: () => setStalled(false),
    cut() {
      for (const link of links) link.end(false)
    },
    reset() {
      for (const link of links) link.end(true)
    },
    refuse() {
      const closed = new Promise<void>((resolve) => listener.close(() => resolve()))
      proxy.cut()
      return closed
    },
    accept: () => new Promise((resolve) => listener.listen(port, '127.0.0.1', () => resolve())),
    async stop() {
      if (listener.listening) await proxy.refuse()
      else proxy.cut()
    },
  }
  await proxy.accept()
  return proxy
}

/** One connection of the service and its own one to Redis. */
class Link {
  isStalled = false
  private readonly proxy: RespProxy
  private readonly client: Socket
  private readonly server: Socket
  private readonly onEnded: () => void
  private readonly pending: Pending[] = [] // oldest first
  private fromClient = Buffer.alloc(0) // an incomplete command
  private fromServer = Buffer.alloc(0) // an incomplete reply
  private splitAt = 0 // where the next reply is cut
  private timer: NodeJS.Timeout | undefined
  private isWriting = false // the second piece of a reply is still to be written
  private isEnded = false

  constructor(proxy: RespProxy, client: Socket, server: Socket, onEnded: () => void) {
    this.proxy = proxy
    this.client = client
    this.server = server
    this.onEnded = onEnded
    const end = () => this.end(false)
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end)
    client.on('data', (bytes) => this.onCommands(bytes))
    server.on('data', (bytes) => this.onReplies(bytes))
  }

  end(isReset: boolean): void {
    if (this.isEnded) return
    this.isEnded = true
    clearTimeout(this.timer)
    if (isReset) this.client.resetAndDestroy()
    else this.client.destroy()
    this.server.destroy()
    this.onEnded()
  }

  private onCommands(bytes: Buffer): void {
    const { proxy } = this
    const all = this.fromClient.length === 0 ? bytes : Buffer.concat([this.fromClient, bytes])
    let at = 0
    while (!this.isEnded) {
      const end = findEnd(all, at)
      if (end === -1) break
      const args = readCommand(all, at)
      const fault = proxy.decide?.({ args, number: proxy.commandsCount }) ?? null
      proxy.commandsCount++
      if (fault !== null && 'drop' in fault) {
        this.end(false)
        return
      }
      const isSwallowed = fault !== null && 'reply' in fault
      const reply = isSwallowed ? Buffer.from(fault.reply) : null
      this.pending.push({ args, fault, reply, dueMs: performance.now() + proxy.delayMs })
      if (!isSwallowed) this.server.write(all.subarray(at, end))
      at = end
    }
    this.fromClient = Buffer.from(all.subarray(at))
    this.pass()
  }

  private onReplies(bytes: Buffer): void {
    const all = this.fromServer.length === 0 ? bytes : Buffer.concat([this.fromServer, bytes])
    let at = 0
    while (!this.isEnded) {
      const end = findEnd(all, at)
      if (end === -1) break
      const waiting = this.pending.find(({ reply }) => reply === null)
      if (waiting === undefined) throw new Error('Redis sent a reply to no command')
      waiting.reply = Buffer.from(all.subarray(at, end))
      at = end
    }
    this.fromServer = Buffer.from(all.subarray(at))
    this.pass()
  }

  /** Passes on the replies that may go now, in order. */
  pass(): void {
    if (this.isEnded || this.isStalled || this.isWriting) return
    const ready: Buffer[] = []
    let cut: Fault | null = null
    while (cut === null) {
      const [next] = this.pending
      if (next === undefined || next.reply === null || this.isEarly(next)) break
      this.pending.shift()
      const { args, fault, reply } = next
      if (fault !== null && 'replaced' in fault) {
        this.proxy.hiddenHits += countHits(args)
        ready.push(Buffer.from(fault.replaced))
      } else if (fault !== null && 'cutAfter' in fault) {
        ready.push(reply.subarray(0, fault.cutAfter))
        cut = fault
      } else ready.push(reply)
    }
    const bytes = Buffer.concat(ready)
    if (cut !== null && 'cutAfter' in cut) {
      const { isReset = false } = cut
      this.isWriting = true // nothing follows
      this.client.write(bytes, () => this.end(isReset))
    } else if (bytes.length > 0) this.write(bytes)
  }

  /** The reply has to wait longer; then the next attempt is scheduled. */
  private isEarly({ dueMs }: Pending): boolean {
    const restMs = dueMs - performance.now()
    if (restMs <= 0) return false
    this.timer ??= setTimeout(() => {
      this.timer = undefined
      this.pass()
    }, restMs)
    return true
  }

  /** With `isSplitting` in two pieces, of which the second is written when the first has left. */
  private write(bytes: Buffer): void {
    if (!this.proxy.isSplitting || bytes.length < 2) {
      this.client.write(bytes)
      return
    }
    const at = 1 + (this.splitAt++ % (bytes.length - 1))
    this.isWriting = true
    this.client.write(bytes.subarray(0, at), () => {
      setTimeout(() => {
        this.isWriting = false
        if (this.isEnded) return
        this.client.write(bytes.subarray(at))
        this.pass()
      }, SPLIT_MS)
    })
  }
}

/** Hits that a command adds. */
function countHits([name, ...args]: readonly string[]): number {
  if (name === 'INCRBY') return Number(args[1])
  if (name !== 'EVALSHA' && name !== 'EVAL') return 0
  const keys = Number(args[1]) // then the keys, then pairs of hits and expiry
  let hits = 0
  for (let i = 0; i < keys; i++) hits += Number(args[2 + keys + 2 * i])
  return hits
}

const SPLIT_MS = 1 // between two pieces: else the kernel joins them
const CRLF = '\r\n'
const [STRING, ARRAY] = [0x24, 0x2a] // $ and *

/** Where the command or reply that begins at `at` ends; -1 if its end is not here yet. */
export function findEnd(bytes: Buffer, at: number): number {
  const lineEnd = bytes.indexOf(CRLF, at)
  if (at >= bytes.length || lineEnd === -1) return -1
  const next = lineEnd + 2
  if (bytes[at] === STRING) {
    const length = Number(bytes.toString('latin1', at + 1, lineEnd))
    if (length < 0) return next
    return next + length + 2 <= bytes.length ? next + length + 2 : -1
  }
  if (bytes[at] !== ARRAY) return next
  let end = next
  for (let left = Number(bytes.toString('latin1', at + 1, lineEnd)); left > 0; left--) {
    end = findEnd(bytes, end)
    if (end === -1) return -1
  }
  return end
}

/** The arguments of a whole command: an array of strings. */
function readCommand(bytes: Buffer, at: number): string[] {
  const args: string[] = []
  let lineEnd = bytes.indexOf(CRLF, at)
  const count = Number(bytes.toString('latin1', at + 1, lineEnd))
  for (let i = 0; i < count; i++) {
    const start = lineEnd + 2
    lineEnd = bytes.indexOf(CRLF, start)
    const length = Number(bytes.toString('latin1', start + 1, lineEnd))
    args.push(bytes.toString('utf8', lineEnd + 2, lineEnd + 2 + length))
    lineEnd += 2 + length
  }
  return args
}
