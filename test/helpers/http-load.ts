/**
 * An open loop of GET requests over HTTP/1.1 connections that are kept alive: request k is due at begin + k / rate, whatever the
 * responses to earlier ones do, and its latency counts from then.
 *
 *     const load = startHttpLoad({ url, ratePerSec: 2_000, header: (k) => `x-user: u${k % 1_000}`, answerHeader: 'x-degraded' })
 *     …
 *     const requests = await load.stop()
 *
 * Plain sockets, since node:http takes 170 us per request, at 2,000 per second a third of a core that the measured services need, too.
 * Responses must have a content-length. A connection that closes or breaks fails its request and is replaced.
 */
import { connect, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { Clock } from '../../bench/load/clock.ts'

export interface HttpLoadOptions {
  url: string
  ratePerSec: number
  header(request: number): string // a line of the request's head
  answerHeader: string // of responses, in the case in which they come, recorded
}

export interface TimedRequest {
  dueMs: number // of performance.now
  lagMs: number // from then to when it was made or began to wait for a connection
  latencyMs: number // infinite = no response
  status: number // 0 = no response
  answerHeader: string // '' = the response had none
}

const CONNECTIONS_MAX = 512 // beyond, requests wait; their latency counts all the same
const RESPONSE_MS_MAX = 30_000 // after `stop`; later responses are not waited for
const HEAD_END = '\r\n\r\n'

export function startHttpLoad(options: HttpLoadOptions): { stop(): Promise<TimedRequest[]> } {
  const { url, ratePerSec, header, answerHeader } = options
  const { hostname, port, pathname } = new URL(url)
  const requests: TimedRequest[] = []
  const idle: Connection[] = []
  const all = new Set<Connection>()
  const startMs = performance.now()
  let made = 0 // requests before this one have a connection
  let pendingCount = 0

  const onFree = (connection: Connection | null) => {
    pendingCount--
    if (connection !== null) idle.push(connection)
    if (made < requests.length) makeNext()
  }
  const createConnection = (): Connection => {
    const connection = new Connection(connect(Number(port), hostname), answerHeader, onFree, () => {
      all.delete(connection)
      const at = idle.indexOf(connection)
      if (at >= 0) idle.splice(at, 1)
    })
    all.add(connection)
    return connection
  }
  const makeNext = () => {
    const connection = idle.pop() ?? (all.size < CONNECTIONS_MAX ? createConnection() : null)
    if (connection === null) return
    const head = `GET ${pathname} HTTP/1.1\r\nhost: test\r\n${header(made)}${HEAD_END}`
    pendingCount++
    connection.ask(requests[made++], head)
  }
  const clock = new Clock((): number => {
    const nowMs = performance.now()
    const dueCount = Math.floor(((nowMs - startMs) * ratePerSec) / 1_000) + 1
    while (requests.length < dueCount) {
      const dueMs = startMs + (requests.length * 1_000) / ratePerSec
      const lagMs = nowMs - dueMs
      requests.push({ dueMs, lagMs, latencyMs: Number.POSITIVE_INFINITY, status: 0, answerHeader: '' })
      makeNext()
    }
    return startMs + (requests.length * 1_000) / ratePerSec - performance.now()
  })
  clock.start(ratePerSec)
  return {
    async stop() {
      clock.stop()
      const endMs = performance.now() + RESPONSE_MS_MAX
      while (pendingCount + requests.length - made > 0 && performance.now() < endMs) await sleep(5)
      for (const connection of all) connection.close()
      return requests
    },
  }
}

/** One connection with at most one request. */
class Connection {
  private readonly socket: Socket
  private readonly answerHeader: string
  private readonly onFree: (connection: Connection | null) => void
  private request: TimedRequest | null = null
  private received = '' // of the response so far

  /** `onFree` is called when a request has ended, with the connection if it can be used again. */
  constructor(
    socket: Socket,
    answerHeader: string,
    onFree: (connection: Connection | null) => void,
    onClosed: () => void,
  ) {
    this.socket = socket
    this.answerHeader = `\r\n${answerHeader}: `
    this.onFree = onFree
    socket.setNoDelay(true).setEncoding('latin1')
    socket.on('data', (text: string) => this.onData(text))
    socket.on('error', () => {}) // 'close' follows
    socket.on('close', () => {
      onClosed()
      if (this.request === null) return
      this.end(0, '')
      onFree(null)
    })
  }

  ask(request: TimedRequest, head: string): void {
    this.request = request
    this.socket.write(head, 'latin1')
  }

  close(): void {
    this.socket.destroy()
  }

  private onData(text: string): void {
    this.received += text
    const headEnd = this.received.indexOf(HEAD_END)
    if (headEnd < 0 || this.request === null) return
    const head = this.received.slice(0, headEnd + 2)
    if (headEnd + HEAD_END.length + Number(find(head, '\r\ncontent-length: ')) > this.received.length) return
    this.received = ''
    this.end(Number(head.slice(9, 12)), find(head, this.answerHeader))
    this.onFree(this)
  }

  private end(status: number, answerHeader: string): void {
    const request = this.request!
    this.request = null
    request.status = status
    request.answerHeader = answerHeader
    request.latencyMs = performance.now() - request.dueMs
  }
}

/** The rest of the line that begins with `name`, or ''. */
function find(head: string, name: string): string {
  const at = head.indexOf(name)
  return at < 0 ? '' : head.slice(at + name.length, head.indexOf('\r\n', at + name.length))
}
