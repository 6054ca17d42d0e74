/**
 * Shortens the timers of one length for the rest of a test, so that a period of the code under test does not take its time.
 *
 *     shortenTimers(1_000, 20)
 */
import { onTestFinished, vi } from 'vitest'

type Run = (...args: unknown[]) => void
type SetTimer = (run: Run, ms?: number, ...args: unknown[]) => NodeJS.Timeout

export function shortenTimers(fromMs: number, toMs: number): void {
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const set = globalThis[name] as SetTimer
    const setShort: SetTimer = (run, ms, ...args) => set(run, ms === fromMs ? toMs : ms, ...args)
    const spy = vi.spyOn(globalThis, name).mockImplementation(setShort as never)
    onTestFinished(() => spy.mockRestore())
  }
}
