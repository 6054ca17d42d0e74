import { expect, test } from 'vitest'
import { LineQueue } from '../../../transports/metrics/line-queue.ts'

const SIZES = { chunkBytes: 10, bytesMax: 30, lineBytesMax: 20 }

/** Offers lines and prints all chunks. */
function drained(queue: LineQueue): string[] {
  const texts: string[] = []
  for (let chunk = queue.shift(); chunk; chunk = queue.shift()) texts.push(`${chunk.lines}: ${chunk.text}`)
  return texts
}

test('7.3: lines share chunks and are never divided; a longer one is a chunk', () => {
  const queue = new LineQueue(SIZES)
  for (const line of ['aaaa\n', 'bbbb\n', 'c\n', 'dddddddddddd\n']) expect(queue.offer(line)).toBe(true)
  expect(drained(queue)).toEqual(['2: aaaa\nbbbb\n', '1: c\n']) // the last chunk is still open
  queue.seal()
  expect(drained(queue)).toEqual(['1: dddddddddddd\n'])
  expect(queue.isEmpty).toBe(true)
})

test('7.3: at most so many bytes wait, counted as bytes and not as characters', () => {
  const queue = new LineQueue(SIZES)
  expect(queue.offer('ééééé\n')).toBe(true) // 11 bytes
  expect(queue.offer('ééééé\n')).toBe(true)
  expect(queue.offer('ééééé\n')).toBe(false)
  expect(queue.offer('12345678')).toBe(true)
  expect(queue.offer('1')).toBe(false)
  queue.seal()
  drained(queue)
  expect(queue.offer('ééééé\n')).toBe(true)
})

test('7.3: a line longer than a chunk is refused', () => {
  expect(new LineQueue(SIZES).offer('x'.repeat(21))).toBe(false)
})
