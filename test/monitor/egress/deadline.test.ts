/** One phase with its deadline: how it ends, and that it leaves nothing behind. */
import { beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { within } from '../../../monitor/egress/deadline.ts'

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] })
  onTestFinished(() => void vi.useRealTimers())
})

/** A phase that ends with its signal, as all phases do. */
const untilAborted = (signal: AbortSignal): Promise<never> =>
  new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))

const DEADLINE = { ms: 500, code: 'tls_timeout' } as const

test('a result in time is returned; no timer and no listener is left', async () => {
  const outer = new AbortController().signal
  const removed = vi.spyOn(outer, 'removeEventListener')
  const added = vi.spyOn(outer, 'addEventListener')
  expect(await within({ ...DEADLINE, outer }, async () => 7)).toBe(7)
  expect(vi.getTimerCount()).toBe(0)
  expect(added).toHaveBeenCalledOnce()
  expect(removed).toHaveBeenCalledWith('abort', added.mock.calls[0][1])
})

test('the error of a phase is its own', async () => {
  const error = new Error('no')
  await expect(within(DEADLINE, () => Promise.reject(error))).rejects.toBe(error)
  expect(vi.getTimerCount()).toBe(0)
})

test('the deadline ends it with its code', async () => {
  const ended = expect(within(DEADLINE, untilAborted)).rejects.toMatchObject({
    code: 'tls_timeout',
    detail: 'deadline',
    isOurs: false,
  })
  vi.advanceTimersByTime(499)
  expect(vi.getTimerCount()).toBe(1)
  vi.advanceTimersByTime(1)
  await ended
})

test('the caller ends it: given up, with the same code', async () => {
  const outer = new AbortController()
  const ended = within({ ...DEADLINE, outer: outer.signal }, untilAborted).catch((error) => error)
  outer.abort()
  expect(await ended).toMatchObject({ code: 'tls_timeout', detail: 'given up' })
  expect(vi.getTimerCount()).toBe(0)
})

test('a phase is not begun after the caller gave up', async () => {
  const phase = vi.fn()
  const outer = AbortSignal.abort()
  await expect(within({ ...DEADLINE, outer }, phase)).rejects.toMatchObject({ detail: 'given up' })
  expect(phase).not.toHaveBeenCalled()
})
