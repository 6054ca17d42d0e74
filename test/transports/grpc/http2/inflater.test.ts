/** Messages that are unpacked: how many at once, whose turn it is, and who is not worth it any more. */
import { gzipSync } from 'node:zlib'
import { expect, test } from 'vitest'
import { INFLATING_MAX } from '../../../../transports/grpc/http2/bounds.ts'
import { Inflater } from '../../../../transports/grpc/http2/inflater.ts'

class Waiter {
  static begun = 0
  readonly done: Promise<string | null>
  private readonly isGone: boolean
  private resolve: (text: string | null) => void = () => {}

  constructor(isGone: boolean) {
    this.isGone = isGone
    this.done = new Promise((resolve) => {
      this.resolve = resolve
    })
  }

  get isCancelled(): boolean {
    Waiter.begun++
    return this.isGone
  }

  unpacked(_bytes: number, message: Buffer | null): void {
    this.resolve(message === null ? null : String(message))
  }
}

test(`no more than ${INFLATING_MAX} at once, and all in the end; who is gone costs nothing`, async () => {
  const inflater = new Inflater()
  const bytes = gzipSync('hello')
  const waiters = Array.from({ length: 5 * INFLATING_MAX }, (_, i) => new Waiter(i % 5 === 4))
  Waiter.begun = 0
  for (const stream of waiters) inflater.unpack(waiters, { bytes, stream })
  expect(Waiter.begun).toBeLessThanOrEqual(INFLATING_MAX + 1)
  const texts = await Promise.all(waiters.map(({ done }) => done))
  expect(texts).toEqual(waiters.map((_, i) => (i % 5 === 4 ? null : 'hello')))
})
