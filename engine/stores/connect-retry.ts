/** Waits at the start until a connection succeeds: retries, and what is logged meanwhile (spec 9.3, 9.5). */
import { setTimeout as sleep } from 'node:timers/promises'
import { type BackoffSpan, backoffMs } from '../runtime/backoff.ts'
import { ConfigurationError } from '../runtime/errors.ts'
import type { Log } from '../runtime/messages.ts'

export interface Startup extends BackoffSpan {
  maxElapsedMs: number // then give up; 0 = never
}

export interface ConnectAttempts {
  open: () => Promise<void> // one attempt; rejects with its reason
  address: string // masked, for logs
  startup: Startup
  log: Log
  signal?: AbortSignal // cancels
  random?: () => number
}

/** Retries `open` until it succeeds. Throws a ConfigurationError after `maxElapsedMs` or when the signal aborts. */
export async function openWithRetries(attempts: ConnectAttempts): Promise<void> {
  const { open, address, startup, log, signal, random = Math.random } = attempts
  const startMs = performance.now()
  for (let failures = 1; ; failures++) {
    if (signal?.aborted) throw createCancelled(address)
    try {
      return await open()
    } catch (cause) {
      const elapsedMs = performance.now() - startMs
      const elapsed = goDuration(elapsedMs)
      const error = errorText(cause)
      if (startup.maxElapsedMs > 0 && elapsedMs >= startup.maxElapsedMs) {
        const what = `timed out waiting for Redis connection to ${address} after ${elapsed}: ${error}`
        throw new ConfigurationError({ code: 'REDIS_UNREACHABLE', what, exitCode: 2 }, { cause })
      }
      const waitMs = backoffMs(failures, startup, random)
      log(
        'warning',
        `Retrying Redis connection to ${address} in ${goDuration(waitMs)} (elapsed: ${elapsed}): ${error}`,
      )
      await sleep(waitMs, undefined, { signal }).catch(() => {}) // an abort is handled at the top of the loop
    }
  }
}

export function createCancelled(address: string): ConfigurationError {
  const what = `context cancelled while waiting for Redis connection to ${address}: context canceled`
  return new ConfigurationError({ code: 'START_CANCELLED', what, exitCode: 2 })
}

/** An error's message, or its code: connecting to a name with several addresses fails with an empty message. */
export function errorText(error: unknown): string {
  if (!(error instanceof Error)) return String(error)
  return error.message || String((error as NodeJS.ErrnoException).code ?? error.name)
}

/** As Go prints a duration, to the millisecond: `125ms`, `1.5s`, `2m0.25s`, `1h0m0s`. */
export function goDuration(ms: number): string {
  const whole = Math.round(ms)
  if (whole === 0) return '0s'
  if (whole < 1_000) return `${whole}ms`
  const hours = Math.floor(whole / 3_600_000)
  const minutes = Math.floor(whole / 60_000) % 60
  const seconds = `${(whole % 60_000) / 1_000}s`
  if (hours > 0) return `${hours}h${minutes}m${seconds}`
  return minutes > 0 ? `${minutes}m${seconds}` : seconds
}
