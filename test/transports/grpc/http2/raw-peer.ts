/**
 * A client of bytes: it says exactly what a test says, faults included, and keeps every frame it gets.
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

  /** Connected, and both sides have said hello. */
  static async hello(port: number): Promise<RawPeer> {
    const peer = new RawPeer(port)
    peer.send(HELLO)
    await peer.until(({ type, flags }) => type === FrameType.Settings && flags === Flag.Ack)
    return peer
  }

  send(...frames: Uint8Array[]): void {
    this.socket.write(Buffer.concat(frames))
  }

  /** The first frame that fits, or null when the connection has closed without. */
  async until(fits: (frame: Frame) => boolean): Promise<Frame | null> {
    for (;;) {
      const found = this.frames.find(fits)
      if (found !== undefined || this.isClosed) return found ?? null
      await new Promise<void>((resolve) => {
        this.onChange = resolve
      })
    }
  }

  /** A round trip: everything sent before has been read. False when the connection has closed. */
  async settle(): Promise<boolean> {
    const count = this.frames.filter(
      (each) => each.type === FrameType.Settings && each.flags === Flag.Ack,
    ).length
    this.send(settings())
    return (
      (await this.until(
        (each) =>
          each ===
          this.frames.filter(({ type, flags }) => type === FrameType.Settings && flags === Flag.Ack)[count],
      )) !== null
    )
  }

  /** How a stream or the connection ended: `RST 1`, `GOAWAY 11`, `answer`, or `closed`. */
  async outcome(id: number): Promise<string> {
    const end = await this.until(
      ({ type, flags, id: of }) =>
        type === FrameType.Goaway ||
        (of === id &&
          (type === FrameType.RstStream || (type === FrameType.Headers && (flags & Flag.EndStream) !== 0))),
    )
    if (end === null) return 'closed'
    if (end.type === FrameType.Goaway) return `GOAWAY ${end.payload.readUInt32BE(4)}`
    return end.type === FrameType.RstStream ? `RST ${end.payload.readUInt32BE(0)}` : 'answer'
  }

  private read(chunk: Buffer): void {
    let bytes = Buffer.concat([this.rest, chunk])
    while (bytes.length >= 9 && bytes.length >= 9 + bytes.readUIntBE(0, 3)) {
      const end = 9 + bytes.readUIntBE(0, 3)
      this.frames.push({
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
}
