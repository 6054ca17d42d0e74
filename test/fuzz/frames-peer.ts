/**
 * A client that uses the protocol in valid ways that no library does: every kind of call, divided into any frames, in any
 * order, with small windows. It knows the expected responses, and collects deviations in `problems`.
 *
 *     step() ── some frames, queued ──► mutate? ──► deliver() ── up to any byte ──► FuzzSocket
 *     finish() ── the remaining frames, wide windows ──► every call has exactly one response
 */
import { Flag, FrameType, PREFACE, Setting, WINDOW_DEFAULT } from '../../transports/grpc/http2/frames.ts'
import { RECEIVE_WINDOW } from '../../transports/grpc/http2/receiver.ts'
import { frame, block as literalBlock, settings, u32 } from '../transports/grpc/http2/frame-bytes.ts'
import { BlockWriter } from './frames-blocks.ts'
import { FuzzCall } from './frames-call.ts'
import { makeCall, PROBE } from './frames-plans.ts'
import { FuzzSocket, type ReceivedFrame } from './frames-socket.ts'

type Random = () => number

const CALLS_MAX = 60 // open at once
const SETTINGS_MAX = 80 // of a connection: below the server's bound
const WINDOWS = [0, 1, 10, 100, 5_000, WINDOW_DEFAULT, 1_000_000]

export class FuzzPeer {
  readonly socket = new FuzzSocket((received) => this.onFrame(received))
  readonly problems: string[] = []
  readonly calls = new Map<number, FuzzCall>()
  framesCount = 0
  /** Replaces each frame that is sent. */
  mutate: ((bytes: Buffer) => Buffer[]) | null = null
  goAwayText: string | null = null // debug data of GOAWAY
  isMutated = false // some frame was mutated: each call must end once, and nothing else is expected of it
  private isProbing = false
  private readonly random: Random
  private readonly writer: BlockWriter
  private readonly resetIds = new Set<number>() // by this peer: later frames are ignored
  private readonly ended = new Set<number>() // while mutated
  private queue: Buffer[] = []
  private nextId = 1
  private settingsCount = 0
  private sentSettings: number[] = [] // windows of streams, not acknowledged yet
  private window = WINDOW_DEFAULT // of new streams, as acknowledged
  private receiveWindow = WINDOW_DEFAULT // bytes that the server may send
  private sendWindow = WINDOW_DEFAULT // bytes that this peer may send
  private hasResponse = false // since the last ping was acknowledged
  private isPinging = false

  constructor(random: Random) {
    this.random = random
    this.writer = new BlockWriter(random)
    this.queue.push(PREFACE, settings())
    this.sentSettings.push(-1)
    this.framesCount++
  }

  step(): void {
    const chance = this.random()
    if (chance < 0.3) this.openCall()
    else if (chance < 0.7) this.sendBody(pick(this.random, [...this.calls.values()]))
    else if (chance < 0.8) this.openWindow()
    else if (chance < 0.84) this.changeWindow(pick(this.random, WINDOWS))
    else if (chance < 0.88) this.reset(pick(this.random, [...this.calls.values()]))
    else if (chance < 0.92) this.ping()
    else if (chance < 0.96) this.queueFrame(frame(99, 255, this.nextId + 2, Buffer.alloc(this.integer(20))))
    else
      this.queueFrame(
        frame(
          FrameType.Priority,
          0,
          1 + this.integer(2 * this.nextId),
          Buffer.concat([u32(0), Buffer.of(7)]),
        ),
      )
  }

  /** Sends a part of the queue, of any length. */
  deliver(share = this.random()): void {
    const all = Buffer.concat(this.queue)
    let cut = share >= 1 ? all.length : Math.floor(all.length * share)
    this.queue = cut < all.length ? [all.subarray(cut)] : []
    for (let from = 0; from < cut; ) {
      const to = this.random() < 0.7 ? cut : from + 1 + this.integer(Math.min(cut - from, 300))
      this.socket.feed(all.subarray(from, to))
      from = to
      if (this.socket.destroyed) cut = 0
    }
  }

  /** Sends all that is left and opens the windows for all responses. */
  finish(): void {
    this.socket.unstick()
    this.changeWindow(1_000_000, true)
    for (const call of this.calls.values()) {
      this.widen(call.id, 10_000_000)
      if (call.isSent) continue
      if (this.sendWindow < 100_000) this.reset(call)
      else {
        while (!call.isSent && !call.isOver && this.sendBody(call));
        if (!call.isSent && !call.isOver) this.reset(call)
      }
    }
    this.widen(0, 20_000_000) // last, so that most responses wait until now
    this.deliver(1)
  }

  /** A call that does not depend on earlier frames; its outcome is in `calls`, as for others. */
  probe(id: number): FuzzCall {
    const call = new FuzzCall({ ...PROBE, id })
    call.receiveWindow = Number.POSITIVE_INFINITY // the mutated frame may have changed a window
    this.calls.clear()
    this.calls.set(id, call)
    this.mutate = null
    this.isProbing = true
    this.queueFrame(settings([Setting.InitialWindowSize, WINDOW_DEFAULT]))
    this.queueFrame(frame(FrameType.WindowUpdate, 0, 0, u32(1_000_000)))
    this.queueFrame(
      frame(FrameType.Headers, Flag.EndHeaders, id, literalBlock(Object.fromEntries(PROBE.fields))),
    )
    this.queueFrame(frame(FrameType.Data, Flag.EndStream, id, PROBE.body))
    this.deliver(1)
    return call
  }

  queueFrame(bytes: Buffer): void {
    this.framesCount++
    if (this.mutate === null) this.queue.push(bytes)
    else this.queue.push(...this.mutate(bytes))
  }

  get isClosed(): boolean {
    return this.goAwayText !== null
  }

  /** Whether the server has returned all of its receive window. */
  get isWindowOpen(): boolean {
    return this.sendWindow >= RECEIVE_WINDOW / 2
  }

  get highestId(): number {
    return this.nextId
  }

  private integer(below: number): number {
    return Math.floor(this.random() * below)
  }

  // ---- calls

  private openCall(): void {
    if (this.calls.size >= CALLS_MAX) return
    const call = makeCall(this.nextId, this.random)
    this.nextId += 2 * (1 + this.integer(3))
    call.receiveWindow = this.window
    this.calls.set(call.id, call)
    const block = this.writer.block(call.fields)
    const isEnd = call.body.length === 0 && !call.hasTrailers && this.random() < 0.5
    if (isEnd) call.isSent = true
    this.queueBlock(call.id, block, isEnd ? Flag.EndStream : 0)
  }

  private queueBlock(id: number, block: Buffer, flags: number): void {
    const parts: Buffer[] = []
    for (let at = 0; parts.length < 5; ) {
      const to =
        this.random() < 0.8 || parts.length === 4 ? block.length : at + this.integer(block.length - at + 1)
      parts.push(block.subarray(at, to))
      at = to
      if (at === block.length) break
    }
    parts.forEach((part, i) => {
      const ends = i === parts.length - 1 ? Flag.EndHeaders : 0
      if (i > 0) this.queueFrame(frame(FrameType.Continuation, ends, id, part))
      else this.queueFrame(padded(FrameType.Headers, flags | ends, id, part, this.random))
    })
  }

  /** Sends one more frame of the call. False: the windows do not allow it. */
  private sendBody(call: FuzzCall | undefined): boolean {
    if (call === undefined || call.isSent || call.isOver) return true
    const left = call.body.length - call.sent
    const room = Math.min(this.sendWindow, call.sendWindow) - 256 // padding
    const chosen = this.random() < 0.5 ? left : this.integer(left + 1)
    const count = Math.min(chosen, 16_000, room)
    if (count < 0 || (count === 0 && left > 0 && this.random() < 0.9)) return room > 0
    const piece = call.body.subarray(call.sent, call.sent + count)
    call.sent += count
    const isLast = call.sent === call.body.length
    const flags = isLast && !call.hasTrailers ? Flag.EndStream : 0
    const bytes = padded(FrameType.Data, flags, call.id, piece, this.random)
    this.sendWindow -= bytes.length - 9
    call.sendWindow -= bytes.length - 9
    this.queueFrame(bytes)
    if (isLast) {
      call.isSent = true
      if (call.hasTrailers) this.queueBlock(call.id, this.writer.block([['x-end', 'yes']]), Flag.EndStream)
    }
    return true
  }

  private reset(call: FuzzCall | undefined): void {
    if (call === undefined) return
    this.calls.delete(call.id)
    this.resetIds.add(call.id)
    this.queueFrame(frame(FrameType.RstStream, 0, call.id, u32(8)))
  }

  // ---- windows, settings, pings

  private openWindow(): void {
    const call = pick(this.random, [undefined, ...this.calls.values()])
    this.widen(call?.id ?? 0, 1 + this.integer(this.random() < 0.5 ? 20 : 20_000))
  }

  private widen(id: number, count: number): void {
    if (id === 0) this.receiveWindow += count
    else {
      const call = this.calls.get(id)
      if (call !== undefined) call.receiveWindow += count
    }
    this.queueFrame(frame(FrameType.WindowUpdate, 0, id, u32(count)))
  }

  private changeWindow(bytes: number, isForced = false): void {
    if (!isForced && this.settingsCount >= SETTINGS_MAX) return
    this.settingsCount++
    this.sentSettings.push(bytes)
    this.queueFrame(
      settings([Setting.InitialWindowSize, bytes], [Setting.HeaderTableSize, this.integer(5_000)]),
    )
  }

  private ping(): void {
    if (!this.hasResponse || this.isPinging) return // the server counts more pings as abuse
    this.isPinging = true
    this.queueFrame(frame(FrameType.Ping, 0, 0, Buffer.alloc(8, 7)))
  }

  // ---- receiving

  private onFrame({ type, flags, id, payload }: ReceivedFrame): void {
    if (type === FrameType.Goaway) this.goAwayText = payload.toString('latin1', 8)
    else if (type === FrameType.Settings && flags === Flag.Ack) this.onSettingsAck()
    else if (type === FrameType.Ping) this.onPingAck()
    else if (type === FrameType.WindowUpdate) this.onWindowUpdate(id, payload.readUInt32BE())
    else if (id > 0) this.onCallFrame(type, flags, id, payload)
  }

  private onPingAck(): void {
    this.isPinging = false
    this.hasResponse = false
  }

  private onSettingsAck(): void {
    const bytes = this.sentSettings.shift()
    if (bytes === undefined) {
      if (!this.isMutated) this.problems.push('an acknowledgement without settings')
    } else if (bytes >= 0) {
      for (const call of this.calls.values()) call.receiveWindow += bytes - this.window
      this.window = bytes
    }
  }

  private onWindowUpdate(id: number, count: number): void {
    if (id === 0) this.sendWindow += count
    else {
      const call = this.calls.get(id)
      if (call !== undefined) call.sendWindow += count
    }
  }

  private onCallFrame(type: number, flags: number, id: number, payload: Buffer): void {
    const call = this.calls.get(id)
    if (this.isMutated && !(this.isProbing && call !== undefined)) this.onMutatedFrame(type, flags, id)
    else if (call === undefined) {
      const isReset = this.resetIds.has(id)
      if (isReset && type === FrameType.Data) this.receiveWindow -= payload.length
      if (type !== FrameType.RstStream && !isReset)
        this.problems.push(`frame ${type} for stream ${id}, which is over`)
    } else this.onOpenCallFrame(call, type, flags, payload)
  }

  private onMutatedFrame(type: number, flags: number, id: number): void {
    if (type === FrameType.RstStream) return
    if (this.ended.has(id)) this.problems.push(`frame ${type} for stream ${id}, which has ended`)
    if (flags & Flag.EndStream) this.ended.add(id)
  }

  private onOpenCallFrame(call: FuzzCall, type: number, flags: number, payload: Buffer): void {
    if (type === FrameType.Data) this.receiveWindow -= payload.length
    if (this.receiveWindow < 0 && !this.isMutated)
      this.problems.push('more DATA than the window of the connection')
    if (type === FrameType.Headers) this.hasResponse = true
    const problem = call.onFrame(type, flags, payload)
    if (problem !== '') this.problems.push(`${problem}: ${call}`)
    if (call.isOver) this.calls.delete(call.id)
  }
}

const pick = <T>(random: Random, list: readonly T[]): T => list[Math.floor(random() * list.length)]

function padded(type: number, flags: number, id: number, payload: Buffer, random: Random): Buffer {
  if (random() < 0.8) return frame(type, flags, id, payload)
  const padding = Math.floor(random() * 200)
  const bytes = Buffer.concat([Buffer.of(padding), payload, Buffer.alloc(padding)])
  return frame(type, flags | Flag.Padded, id, bytes)
}
