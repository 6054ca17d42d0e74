/**
 * From lines to a peer that may be slow, away or gone: a bounded queue before one connection at a time.
 *
 *     offer ──► queue (4 MiB) ──► one write at a time ──► peer
 *                                   fails: this chunk is lost, since part of it may have arrived
 *     dial ── fails ──► 3 s from the last dial ──► dial …        what waits, waits; beyond the bound `offer` says no
 *
 * Nobody waits for the peer except who asks to, with `room`, and that has an end, too.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../engine/runtime/messages.ts'
import { logOncePerMinute } from '../../engine/runtime/rate-limited-log.ts'
import { LineQueue, type LineQueueOptions } from './line-queue.ts'

export const QUEUE_BYTES_MAX = 4 * 1024 * 1024
export const REDIAL_MS = 3_000 // between two dials
const CLOSE_MS = 1_000 // for what still waits at the end

/** A connection. */
export interface Writer {
  /** Resolves when the bytes have left this process; rejects when that failed, and then they may have left in part. */
  write(bytes: Buffer): Promise<void>
  close(): void
}

/** What went through, or was lost with a connection. */
export interface Traffic {
  packets: number
  bytes: number
}

/** Opens a connection, or rejects. `onGone` is called when it ended by itself. */
export type Dial = (onGone: (why: string) => void) => Promise<Writer>

export interface ReconnectingWriterOptions extends LineQueueOptions {
  peer: string // for the log
  dial: Dial
  log: Log
  redialMs?: number
}

export class ReconnectingWriter {
  lostLines = 0 // that went down with a connection
  readonly lost: Traffic = { packets: 0, bytes: 0 } // the same, as it would have gone out
  readonly sent: Traffic = { packets: 0, bytes: 0 }
  private readonly options: ReconnectingWriterOptions
  private readonly queue: LineQueue
  private readonly logDropped: (line: string) => void
  private readonly logConnected: (line: string) => void
  private writer: Writer | null = null
  private isClosing = false
  private wake: () => void = () => {} // the loop below, where it pauses
  private notifyRoom: (hasRoom: boolean) => void = () => {} // who asked for room
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

  /** False: there is no room, and the line is still the caller's. */
  offer(line: string): boolean {
    return !this.isClosing && this.queue.offer(line)
  }

  /** Lines offered before go out now and not with later ones. */
  push(): void {
    this.queue.seal()
    this.wake()
  }

  /** True as soon as there is some room, false when nothing moves: no connection, or none of `timeoutMs` helped. */
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

  /** What waits goes out if it can in a second. */
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
    let isGone = false
    let isOver = false
    const onGone = (why: string) => {
      isGone = true
      if (isOver) return
      this.logDropped(`statistics: connection to ${peer} lost: ${why}`)
      this.wake()
    }
    try {
      this.writer = await dial(onGone)
      this.logConnected(`statistics go to ${peer}`)
      while (!isGone && !(this.isClosing && this.queue.isEmpty)) await this.pump(this.writer)
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

  /** Until somebody wakes us; or, between two dials, until the time is over or the end comes. */
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
