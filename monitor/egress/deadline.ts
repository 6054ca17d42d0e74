/**
 * One phase of a visit with its own deadline: when it passes, or the caller aborts, `signal` fires with a Failure as its
 * reason. The phase destroys what it holds with that reason and so rejects with it.
 *
 *     await within({ ms: 5_000, code: 'connect_timeout', outer }, (signal) => dial(address, port, signal))
 */
import type { ErrorCode } from '../facts.ts'
import { Failure } from './failure.ts'

export interface Deadline {
  ms: number
  code: ErrorCode // when the deadline passes
  outer?: AbortSignal // of the whole visit
}

export async function within<T>(deadline: Deadline, phase: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const { ms, code, outer } = deadline
  if (outer?.aborted) throw new Failure(code, 'given up')
  const controller = new AbortController()
  const giveUp = () => controller.abort(new Failure(code, 'given up'))
  const timer = setTimeout(() => controller.abort(new Failure(code, 'deadline')), ms)
  outer?.addEventListener('abort', giveUp, { once: true })
  try {
    return await phase(controller.signal)
  } finally {
    clearTimeout(timer)
    outer?.removeEventListener('abort', giveUp)
  }
}
