import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { endResponse } from '../../../engine/runtime/http-response.ts'

beforeEach(() => void vi.useFakeTimers())
afterEach(() => void vi.useRealTimers())

/** A client that has taken nothing yet. */
function createSlow() {
  const handlers = { aborted: () => {}, writable: (_: number) => false }
  const res = {
    end: vi.fn(),
    writeHeader: vi.fn(),
    close: vi.fn(() => handlers.aborted()),
    tryEnd: vi.fn((rest: string | Uint8Array, _: number): [boolean, boolean] => [
      false,
      rest.length === 0 || isReading.value,
    ]),
    onWritable: (handler: typeof handlers.writable) => {
      handlers.writable = handler
    },
    onAborted: (handler: typeof handlers.aborted) => {
      handlers.aborted = handler
    },
  }
  const isReading = { value: false }
  return { res, handlers, isReading }
}

test('a response that is not read within a minute is cut', () => {
  const { res, handlers } = createSlow()
  endResponse(res, 'x'.repeat(1_000), false)
  vi.advanceTimersByTime(30_000)
  handlers.writable(500) // slow, but reading
  vi.advanceTimersByTime(29_999)
  expect(res.close).not.toHaveBeenCalled()
  vi.advanceTimersByTime(1)
  expect(res.close).toHaveBeenCalledTimes(1)
  expect(vi.getTimerCount()).toBe(0)
})

test('the connection of a response that was read, or whose client is gone, is not touched', () => {
  const read = createSlow()
  endResponse(read.res, 'x'.repeat(1_000), false)
  read.isReading.value = true
  read.handlers.writable(500)
  const gone = createSlow()
  endResponse(gone.res, 'x'.repeat(1_000), false)
  gone.handlers.aborted()
  vi.advanceTimersByTime(120_000)
  expect([read.res.close, gone.res.close].map(({ mock }) => mock.calls.length)).toEqual([0, 0])
})
