/** Retries at the start, durations in Go's format, and texts of errors (spec 9.3, 9.5). */
import { beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { errorText, goDuration, openWithRetries, type Startup } from '../../../engine/stores/connect-retry.ts'

// biome-ignore format: the columns are the specification
const durations = [
  [        0, '0s'],
  [      0.4, '0s'],
  [      125, '125ms'],
  [    999.6, '1s'],
  [    1_000, '1s'],
  [    1_500, '1.5s'],
  [    1_002, '1.002s'],
  [   60_000, '1m0s'],
  [   90_250, '1m30.25s'],
  [3_600_000, '1h0m0s'],
  [5_025_000, '1h23m45s'],
] as const

for (const [ms, text] of durations) test(`${ms} ms is ${text}`, () => expect(goDuration(ms)).toBe(text))

test('an error without a message is shown by its code', () => {
  expect(errorText(Object.assign(new AggregateError([]), { code: 'ECONNREFUSED' }))).toBe('ECONNREFUSED')
  expect(errorText('text')).toBe('text')
})

test('an error with neither is shown by its name; a value that is not an Error, as text', () => {
  expect(errorText(new RangeError(''))).toBe('RangeError')
  expect(errorText(Object.assign(new Error('text'), { code: 'E' }))).toBe('text')
  expect(errorText(undefined)).toBe('undefined')
})

describe('openWithRetries', () => {
  const ADDRESS = 'redis.example:6379'
  const STARTUP: Startup = { initialMs: 100, maxMs: 1_000, maxElapsedMs: 0 }
  let nowMs: number
  let log: string[]

  beforeEach(() => {
    nowMs = 5_000
    log = []
    const clock = vi.spyOn(performance, 'now').mockImplementation(() => nowMs)
    onTestFinished(() => clock.mockRestore())
  })

  /** Each attempt takes `attemptMs` and fails, until the one of this number. */
  function connect(startup: Partial<Startup>, successAt: number, signal?: AbortSignal, attemptMs = 0) {
    let attempts = 0
    const open = async () => {
      nowMs += attemptMs
      if (++attempts !== successAt) throw new Error(`attempt ${attempts} failed`)
    }
    const connected = openWithRetries({
      open,
      address: ADDRESS,
      startup: { ...STARTUP, ...startup },
      log: (level, line) => void log.push(`${level} ${line}`),
      signal,
      random: () => 1,
    })
    return { connected, attempts: () => attempts }
  }

  test('an attempt that succeeds logs nothing', async () => {
    const { connected, attempts } = connect({}, 1)
    await connected
    expect([attempts(), log]).toEqual([1, []])
  })

  test('waits longer with each failure, up to the maximum, and logs each', async () => {
    const { connected, attempts } = connect({ initialMs: 1, maxMs: 5 }, 6, undefined, 250)
    await connected
    expect(attempts()).toBe(6)
    expect(log).toEqual(
      ['1ms', '2ms', '4ms', '5ms', '5ms'].map((wait, i) => {
        const elapsed = ['250ms', '500ms', '750ms', '1s', '1.25s'][i]
        return `warning Retrying Redis connection to ${ADDRESS} in ${wait} (elapsed: ${elapsed}): attempt ${i + 1} failed`
      }),
    )
  })

  // biome-ignore format: a table
  test.each([
    // maximum, each attempt takes → attempts
    [  1_000, 500, 2], // the second ends at the maximum
    [  1_001, 500, 3],
    [      1,   0, 9], // no time passes: it succeeds
    [      0, 1e9, 9], // no maximum
  ])('gives up after %d ms; attempts take %d ms: %i attempts', async (maxElapsedMs, attemptMs, expected) => {
    const { connected, attempts } = connect({ maxElapsedMs, initialMs: 1, maxMs: 1 }, 9, undefined, attemptMs)
    const error = await connected.catch((failure) => failure)
    expect(attempts()).toBe(expected)
    if (expected === 9) return expect(error).toBeUndefined()
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error).toMatchObject({ code: 'REDIS_UNREACHABLE', exitCode: 2 })
    expect(error.message).toContain(
      `timed out waiting for Redis connection to ${ADDRESS} after ${goDuration(expected * attemptMs)}: attempt ${expected} failed`,
    )
    expect(error.cause.message).toBe(`attempt ${expected} failed`)
  })

  test('a signal ends a wait; aborted before, no attempt is made', async () => {
    const abort = new AbortController()
    const waiting = connect({ initialMs: 1e8, maxMs: 1e8 }, 9, abort.signal)
    await vi.waitFor(() => expect(log).toHaveLength(1))
    abort.abort()
    const late = connect({}, 1, abort.signal)
    for (const { connected } of [waiting, late]) {
      const error = await connected.catch((failure) => failure)
      expect(error).toMatchObject({ code: 'START_CANCELLED', exitCode: 2 })
      expect(error.message).toContain(
        `context cancelled while waiting for Redis connection to ${ADDRESS}: context canceled`,
      )
    }
    expect([waiting.attempts(), late.attempts()]).toEqual([1, 0])
  })
})
