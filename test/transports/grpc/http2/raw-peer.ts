/**
 * A client that sends exactly the bytes a test gives it, malformed ones included, and keeps every frame it receives.
 *
 *     const peer = await RawPeer.hello(port)
 *     peer.send(headers(1, REQUEST), data(1, message))
 *     await peer.until((frame) => frame.type === FrameType.RstStream)
 */
import { connect, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { Flag, FrameType } from '../../../../transports/grpc/http2/frames.ts'
import { HELLO, settings } from './frame-bytes.ts'

export * from './frame-bytes.ts'

export interface Frame {
  type: number
  flags: number
  id: number
  payload: Buffer
}

const NONE = Buffer.alloc(0)

export class RawPeer {
  readonly frames: Frame[] = []
  readonly socket: Socket
  isClosed = false
  private rest = NONE
  private settingsAcks = 0
  private goaway: Frame | null = null // the first
  private readonly ends = new Map<number, Frame>() // by stream
  private onChange = () => {}

  constructor(port: number) {
    this.socket = connect(port, '127.0.0.1')
    this.socket.on('error', () => {})
    this.socket.on('close', () => {
      this.isClosed = true
      this.onChange()
    })
    this.socket.on('data', (chunk: Buffer) => this.read(chunk))
    onTestFinished(() => {
      this.socket.destroy()
    })
  }

  /** Connected, with SETTINGS exchanged. */
  static async hello(port: number): Promise<RawPeer> {
    const peer = new RawPeer(port)
    peer.send(HELLO)
    await peer.until(({ type, flags }) => type === FrameType.Settings && flags === Flag.Ack)
    return peer
  }

  send(...frames: Uint8Array[]): void {
    this.socket.write(Buffer.concat(frames))
  }

  /** The first frame that matches, or null when the connection has closed without one. */
  async until(matches: (frame: Frame) => boolean): Promise<Frame | null> {
    let read = 0
    let found: Frame | undefined
    await this.waitFor(() => {
      while (found === undefined && read < this.frames.length) {
        if (matches(this.frames[read])) found = this.frames[read]
        read++
      }
      return found !== undefined
    })
    return found ?? null
  }

  /** A round trip: the server has read everything sent before. False when the connection has closed. */
  async settle(): Promise<boolean> {
    const count = this.settingsAcks
    this.send(settings())
    await this.waitFor(() => this.settingsAcks > count)
    return this.settingsAcks > count
  }

  /** How a stream or the connection ended: `RST 1`, `GOAWAY 11`, `answer`, or `closed`. */
  async outcome(id: number): Promise<string> {
    await this.waitFor(() => this.goaway !== null || this.ends.has(id))
    const end = this.ends.get(id)
    if (
      this.goaway !== null &&
      (end === undefined || this.frames.indexOf(end) > this.frames.indexOf(this.goaway))
    ) {
      return `GOAWAY ${this.goaway.payload.readUInt32BE(4)}`
    }
    if (end === undefined) return 'closed'
    return end.type === FrameType.RstStream ? `RST ${end.payload.readUInt32BE(0)}` : 'answer'
  }

  /** Until `isDone`, asked after each read, or the connection has closed. */
  private async waitFor(isDone: () => boolean): Promise<void> {
    while (!isDone() && !this.isClosed) {
      await new Promise<void>((resolve) => {
        this.onChange = resolve
      })
    }
  }

  private read(chunk: Buffer): void {
    let bytes = Buffer.concat([this.rest, chunk])
    while (bytes.length >= 9 && bytes.length >= 9 + bytes.readUIntBE(0, 3)) {
      const end = 9 + bytes.readUIntBE(0, 3)
      this.onFrame({
        type: bytes[3],
        flags: bytes[4],
        id: bytes.readUInt32BE(5),
        payload: bytes.subarray(9, end),
      })
      bytes = bytes.subarray(end)
    }
    this.rest = bytes
    this.onChange()
  }

  private onFrame(frame: Frame): void {
    const { type, flags, id } = frame
    this.frames.push(frame)
    if (type === FrameType.Settings && flags === Flag.Ack) this.settingsAcks++
    if (type === FrameType.Goaway) this.goaway ??= frame
    const isEnd =
      type === FrameType.RstStream || (type === FrameType.Headers && (flags & Flag.EndStream) !== 0)
    if (isEnd && !this.ends.has(id)) this.ends.set(id, frame)
  }
}
