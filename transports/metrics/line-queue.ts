/**
 * A queue of lines in chunks, each small enough for one write. Lines are never split.
 *
 *     offer ──► [ open chunk ] ──full, or seal()──► [ chunk ][ chunk ] ──► shift
 *
 * At most `bytesMax` are queued; beyond that, `offer` returns false and does not take the line.
 */
export interface LineQueueOptions {
  chunkBytes: number // a longer line is a chunk of its own
  bytesMax: number // of the whole queue
  lineBytesMax: number // a longer line is refused
}

export interface Chunk {
  text: string
  lines: number
}

export class LineQueue {
  private readonly options: LineQueueOptions
  private chunks: Chunk[] = []
  private first = 0 // index in `chunks`; earlier ones are removed
  private open: Chunk = { text: '', lines: 0 }
  private openBytes = 0
  private bytes = 0

  constructor(options: LineQueueOptions) {
    this.options = options
  }

  get isEmpty(): boolean {
    return this.bytes === 0
  }

  offer(line: string): boolean {
    const { chunkBytes, bytesMax, lineBytesMax } = this.options
    const lineBytes = Buffer.byteLength(line)
    if (lineBytes > lineBytesMax || this.bytes + lineBytes > bytesMax) return false
    if (this.openBytes + lineBytes > chunkBytes) this.seal()
    this.open.text += line
    this.open.lines++
    this.openBytes += lineBytes
    this.bytes += lineBytes
    return true
  }

  /** Closes the open chunk. */
  seal(): void {
    if (this.openBytes === 0) return
    this.chunks.push(this.open)
    this.open = { text: '', lines: 0 }
    this.openBytes = 0
  }

  /** The oldest sealed chunk. */
  shift(): Chunk | undefined {
    if (this.first === this.chunks.length) return undefined
    const chunk = this.chunks[this.first++]
    this.bytes -= Buffer.byteLength(chunk.text)
    if (this.first === this.chunks.length) {
      this.chunks = []
      this.first = 0
    }
    return chunk
  }
}
