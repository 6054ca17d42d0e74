/**
 * Waits for a state that another thread, process or socket causes.
 *
 *     await eventually(() => expect(logged).toContain('ready'))
 *
 * Uses the real clock and timers, also while a test has fake ones. `vi.waitFor` advances fake timers while it waits.
 */
const WAIT_MS_MAX = 60_000 // generous: a busy machine must not fail a test
const INTERVAL_MS = 5

const { setTimeout } = globalThis // as they are before a test replaces them
const { now } = Date

/** Resolves when `check` neither throws nor rejects. After `timeoutMs` rejects with its last error. */
export async function eventually(check: () => unknown, timeoutMs = WAIT_MS_MAX): Promise<void> {
  const endMs = now() + timeoutMs
  while (true) {
    try {
      await check()
      return
    } catch (error) {
      if (now() >= endMs) throw error
    }
    await new Promise((resolve) => setTimeout(resolve, INTERVAL_MS))
  }
}
