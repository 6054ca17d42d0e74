/**
 * A clock that a test advances. Timers and `performance.now` stand still meanwhile; sockets work as always, so a timeout is
 * reached exactly when the test says so. Create what is tested after `stopClock`. Wait with `eventually`, since `vi.waitFor`
 * advances timers.
 */
import { onTestFinished, vi } from 'vitest'

/** Until the test ends. */
export function stopClock(): void {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval', 'performance'] })
  onTestFinished(() => void vi.useRealTimers())
}

export async function advanceClock(ms: number): Promise<void> {
  await vi.advanceTimersByTimeAsync(ms)
}
