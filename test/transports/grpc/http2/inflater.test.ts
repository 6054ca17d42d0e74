/** Compressed messages: how many at once, the order of connections, and cancelled ones. */
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { INFLATING_MAX } from '../../../../transports/grpc/http2/bounds.ts'
import { Inflater } from '../../../../transports/grpc/http2/inflater.ts'

class Waiter {
  static begun = 0
  readonly done: Promise<string | null>
  private readonly hasEnded: boolean
  private resolve: (text: string | null) => void = () => {}

  constructor(hasEnded: boolean) {
    this.hasEnded = hasEnded
    this.done = new Promise((resolve) => {
      this.resolve = resolve
    })
  }

  get isCancelled(): boolean {
    Waiter.begun++
    return this.hasEnded
  }

  onInflated(_bytes: number, message: Buffer | null): void {
    this.resolve(message === null ? null : String(message))
  }
}

test(`no more than ${INFLATING_MAX} at once, and all in the end; cancelled ones cost nothing`, async () => {
  const inflater = new Inflater()
  const waiters = Array.from({ length: 5 * INFLATING_MAX }, (_, i) => new Waiter(i % 5 === 4))
  Waiter.begun = 0
  for (const stream of waiters) inflater.inflate(waiters, { bytes: gzipSync('hello'), stream })
  expect(Waiter.begun).toBeLessThanOrEqual(INFLATING_MAX + 1)
  const texts = await Promise.all(waiters.map(({ done }) => done))
  expect(texts).toEqual(waiters.map((_, i) => (i % 5 === 4 ? null : 'hello')))
})

const MIB = 1_048_576

function unpacked(bytes: Buffer): Promise<string> {
  return new Promise((resolve) => {
    const stream = {
      isCancelled: false,
      onInflated: (count: number, message: Buffer | null, isTooLarge: boolean) => {
        expect(count).toBe(bytes.length)
        resolve(isTooLarge ? 'too large' : message === null ? 'damaged' : `${message.length} bytes`)
      },
    }
    // the buffer is freed, so the test passes a copy
    new Inflater().inflate(stream, { bytes: Buffer.from(new Uint8Array(bytes).buffer), stream })
  })
}

function withLength(packed: Buffer, length: number): Buffer {
  const copy = Buffer.from(packed)
  copy.writeUInt32LE(length, copy.length - 4)
  return copy
}

function withChecksum(packed: Buffer, sum: number): Buffer {
  const copy = Buffer.from(packed)
  copy.writeUInt32LE(sum, copy.length - 8)
  return copy
}

const small = gzipSync(Buffer.alloc(1_000))
const large = gzipSync(Buffer.alloc(4 * MIB))
const tooLarge = gzipSync(Buffer.alloc(4 * MIB + 1))

test.for<[string, Buffer, string]>([
  ['nothing', gzipSync(''), '0 bytes'],
  ['a small one', small, '1000 bytes'],
  ['one of 64 KiB', gzipSync(Buffer.alloc(65_536)), '65536 bytes'],
  ['one of a little more', gzipSync(Buffer.alloc(65_537)), '65537 bytes'],
  ['the largest', large, '4194304 bytes'],
  ['a larger one', tooLarge, 'too large'],
  ['a larger one that says it is small', withLength(tooLarge, 100), 'damaged'],
  ['a larger one that says it is the largest', withLength(tooLarge, 4 * MIB), 'damaged'],
  ['a small one that says it is large', withLength(small, 2 * MIB), 'damaged'],
  ['a small one with a wrong checksum', withChecksum(small, 1), 'damaged'],
  ['a large one with a wrong checksum', withChecksum(large, 1), 'damaged'],
  ['one that is cut', large.subarray(0, 2_000), 'damaged'],
  ['one of two members', Buffer.concat([small, small]), '2000 bytes'],
  ['no gzip', Buffer.alloc(100), 'damaged'],
  ['too few bytes', Buffer.of(0x1f, 0x8b), 'damaged'],
  ['no bytes', Buffer.alloc(0), 'damaged'],
])('%s', async ([, packed, outcome]) => {
  expect(await unpacked(packed)).toBe(outcome)
})
