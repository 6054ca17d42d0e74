/**
 * Reads the header blocks of gRPC responses: HTTP status, grpc-status and grpc-message. Blocks that do not change the header
 * table are remembered by their bytes: a server sends few different ones, so most are compared and not decoded.
 */
import { decodeGrpcMessage } from './errors.ts'
import { HeaderDecoder } from './header-decoder.ts'

const REMEMBERED_MAX = 8 // beyond this the oldest is replaced
const REMEMBERED_BYTES_MAX = 256

export interface ResponseHead {
  status: number // of HTTP; 0 = not in this block
  grpcStatus: number // -1 = not in this block
  grpcMessage: string
}

interface RememberedBlock {
  bytes: Buffer
  head: ResponseHead
}

export class ResponseHeadReader {
  private readonly decoder = new HeaderDecoder()
  private remembered: RememberedBlock[] = []
  private version = 0 // of the table for which `remembered` holds

  /** Throws if the block cannot be decoded: nothing after it on this connection can. */
  read(bytes: Buffer, from: number, to: number): ResponseHead {
    for (const block of this.remembered) if (isEqual(block.bytes, bytes, from, to)) return block.head
    const head: ResponseHead = { status: 0, grpcStatus: -1, grpcMessage: '' }
    this.decoder.decode(bytes, from, to, (name, value) => {
      if (name === ':status') head.status = Number(value)
      else if (name === 'grpc-status') head.grpcStatus = Number(value)
      else if (name === 'grpc-message') head.grpcMessage = decodeGrpcMessage(value)
    })
    if (this.decoder.version !== this.version) {
      this.version = this.decoder.version
      this.remembered = []
    } else if (to - from <= REMEMBERED_BYTES_MAX) {
      if (this.remembered.length === REMEMBERED_MAX) this.remembered.shift()
      this.remembered.push({ bytes: Buffer.from(bytes.subarray(from, to)), head })
    }
    return head
  }
}

function isEqual(known: Buffer, bytes: Buffer, from: number, to: number): boolean {
  if (known.length !== to - from) return false
  for (let i = 0; i < known.length; i++) if (known[i] !== bytes[from + i]) return false
  return true
}
