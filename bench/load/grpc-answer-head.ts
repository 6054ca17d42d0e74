/**
 * Reads the header blocks of answers: the HTTP status, grpc-status and grpc-message. Any server's blocks, since all of
 * HPACK is read; blocks that leave the table as it was are remembered by their bytes, which are few.
 */
import { HeaderDecoder } from '../../transports/grpc/http2/hpack.ts'
import { decoded } from './errors.ts'

const REMEMBERED_MAX = 8 // further ones take the place of the oldest
const REMEMBERED_BYTES_MAX = 256

const Kind = { Status: 1, GrpcStatus: 2, GrpcMessage: 3 } as const
const KINDS = new Map<string, number>([
  [':status', Kind.Status],
  ['grpc-status', Kind.GrpcStatus],
  ['grpc-message', Kind.GrpcMessage],
])

export interface AnswerHead {
  status: number // of HTTP; 0 = not in this block
  grpcStatus: number // -1 = not in this block
  grpcMessage: string
}

interface Remembered {
  bytes: Buffer
  head: AnswerHead
}

export class AnswerHeads {
  private readonly decoder = new HeaderDecoder((name) => KINDS.get(name) ?? 0)
  private remembered: Remembered[] = []
  private version = 0 // of the table, for which `remembered` holds
  private head: AnswerHead = { status: 0, grpcStatus: -1, grpcMessage: '' }

  /** Throws when the block cannot be decoded: nothing after it on this connection can. */
  read(bytes: Buffer, from: number, to: number): AnswerHead {
    const { table } = this.decoder
    if (table.version !== this.version) this.remembered = []
    for (const each of this.remembered) if (isSame(each.bytes, bytes, from, to)) return each.head
    this.version = table.version
    this.head = { status: 0, grpcStatus: -1, grpcMessage: '' }
    this.decoder.decode(bytes, from, to, this)
    if (table.version === this.version && to - from <= REMEMBERED_BYTES_MAX) {
      if (this.remembered.length === REMEMBERED_MAX) this.remembered.shift()
      this.remembered.push({ bytes: Buffer.from(bytes.subarray(from, to)), head: this.head })
    }
    return this.head
  }

  /** The decoder's call, for each field. */
  field(kind: number, _name: string, value: string): void {
    if (kind === Kind.Status) this.head.status = Number(value)
    else if (kind === Kind.GrpcStatus) this.head.grpcStatus = Number(value)
    else if (kind === Kind.GrpcMessage) this.head.grpcMessage = decoded(value)
  }
}

function isSame(known: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (known.length !== to - from) return false
  for (let i = 0; i < known.length; i++) if (known[i] !== bytes[from + i]) return false
  return true
}
