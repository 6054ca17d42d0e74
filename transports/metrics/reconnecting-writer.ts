/**
 * Writes lines to a peer that may be slow or disconnected: a bounded queue and one connection at a time.
 *
 *     offer ──► queue (4 MiB) ──► one write at a time ──► peer
 *                                   fails: this chunk is lost, since part of it may have arrived
 *     dial ── fails ──► 3 s from the last dial ──► dial …        lines stay queued; when full, `offer` returns false
 *
 * Callers never wait for the peer, except in `room`, which has a timeout.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../engine/runtime/messages.ts'
import { logOncePerMinute } from '../../engine/runtime/rate-limited-log.ts'
import { LineQueue, type LineQueueOptions } from './line-queue.ts'

export const QUEUE_BYTES_MAX = 4 * 1024 * 1024
export const REDIAL_MS = 3_000 // between two dials
const CLOSE_MS = 1_000 // for lines still queued on close; then they are dropped

/** A connection. */
export interface Writer {
  /** Resolves when the bytes have left this process; after a rejection part of them may have been sent. */
  write(bytes: Buffer): Promise<void>
  close(): void
}

/** Traffic that was sent, or lost with a connection. */
export interface Traffic {
  packets: number
  bytes: number
}

/** Opens a connection, or rejects. `onGone` is called when the connection ends by itself. */
export type Dial = (onGone: (why: string) => void) => Promise<Writer>

export interface ReconnectingWriterOptions extends LineQueueOptions {
  peer: string // for the log
  dial: Dial
  log: Log
  redialMs?: number
}

export class ReconnectingWriter {
  lostLines = 0 // lost with a connection
  readonly lost: Traffic = { packets: 0, bytes: 0 } // the same, as packets and bytes
  readonly sent: Traffic = { packets: 0, bytes: 0 }
  private readonly options: ReconnectingWriterOptions
  private readonly queue: LineQueue
  private readonly logDropped: (line: string) => void
  private readonly logConnected: (line: string) => void
  private writer: Writer | null = null
  private isClosing = false
  private wake: () => void = () => {} // ends a pause of the loop below
  private notifyRoom: (hasRoom: boolean) => void = () => {} // the caller that waits in `room`
  private ended: Promise<void> = Promise.resolve()

  constructor(options: ReconnectingWriterOptions) {
    this.options = options
    this.queue = new LineQueue(options)
    this.logDropped = logOncePerMinute((line) => options.log('warning', line))
    this.logConnected = logOncePerMinute((line) => options.log('info', line))
  }

  start(): void {
    this.ended = this.run()
  }

  /** Queues a line. False if the queue is full. */
  offer(line: string): boolean {
    return !this.isClosing && this.queue.offer(line)
  }

  /** Sends queued lines now instead of with later ones. */
  push(): void {
    this.queue.seal()
    this.wake()
  }

  /** True as soon as there is space; false without a connection, or after `timeoutMs`. */
  room(timeoutMs: number): Promise<boolean> {
    this.push()
    if (this.writer === null) return Promise.resolve(false)
    return new Promise((resolve) => {
      const timer = setTimeout(() => this.notifyRoom(false), timeoutMs).unref()
      this.notifyRoom = (hasRoom) => {
        clearTimeout(timer)
        this.notifyRoom = () => {}
        resolve(hasRoom)
      }
    })
  }

  /** Queued lines are sent if that takes at most CLOSE_MS. */
  async close(): Promise<void> {
    this.isClosing = true
    this.push()
    await Promise.race([this.ended, sleep(CLOSE_MS, undefined, { ref: false })])
    this.writer?.close()
  }

  private async run(): Promise<void> {
    const { redialMs = REDIAL_MS } = this.options
    while (!this.isClosing) {
      const dialedMs = performance.now()
      await this.connectAndPump()
      if (!this.isClosing) await this.pause(Math.max(0, dialedMs + redialMs - performance.now()))
    }
  }

  private async connectAndPump(): Promise<void> {
    const { dial, peer } = this.options
    let isClosed = false
    let isOver = false
    const onGone = (why: string) => {
      isClosed = true
      if (isOver) return
      this.logDropped(`statistics: connection to ${peer} lost: ${why}`)
      this.wake()
    }
    try {
      this.writer = await dial(onGone)
      this.logConnected(`statistics go to ${peer}`)
      while (!isClosed && !(this.isClosing && this.queue.isEmpty)) await this.pump(this.writer)
    } catch (error) {
      const { message, code } = error as NodeJS.ErrnoException // several addresses: an error without a message
      this.logDropped(`statistics: connection error: ${peer}: ${message || code}`)
    }
    isOver = true
    this.writer?.close()
    this.writer = null
    this.notifyRoom(false)
  }

  /** Writes one chunk, or waits until there may be one. */
  private async pump(writer: Writer): Promise<void> {
    const chunk = this.queue.shift()
    if (chunk === undefined) return this.pause()
    const bytes = Buffer.from(chunk.text)
    try {
      await writer.write(bytes)
    } catch (error) {
      this.lostLines += chunk.lines
      count(this.lost, bytes)
      throw error
    }
    count(this.sent, bytes)
    this.notifyRoom(true)
  }

  /** Until woken; between two dials also until the redial time or close. */
  private pause(ms?: number): Promise<void> {
    return new Promise((resolve) => {
      const timer = ms === undefined ? undefined : setTimeout(resolve, ms).unref()
      this.wake = () => {
        if (ms !== undefined && !this.isClosing) return
        clearTimeout(timer)
        resolve()
      }
    })
  }
}

function count(traffic: Traffic, bytes: Buffer): void {
  traffic.packets++
  traffic.bytes += bytes.length
}
