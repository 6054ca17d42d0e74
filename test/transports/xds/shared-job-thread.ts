/**
 * One job thread for all sources of a test file, since starting one takes 0.1 s or more. A source that closes while its job
 * runs ends the thread, as in the service.
 *
 *     vi.mock('../../../engine/runtime/job-thread.ts', () => import('./shared-job-thread.ts'))
 */
import type { Piscina } from 'piscina'
import { afterAll, vi } from 'vitest'

const actual = await vi.importActual<typeof import('../../../engine/runtime/job-thread.ts')>(
  '../../../engine/runtime/job-thread.ts',
)
const IDLE_MS = 60_000
let shared: Piscina | null = null

afterAll(() => shared?.destroy())

export function jobThread(file: URL): Pick<Piscina, 'run' | 'destroy'> {
  let runningCount = 0
  return {
    run(task, options) {
      shared ??= actual.jobThread(file, { idleMs: IDLE_MS })
      runningCount++
      return shared.run(task, options).finally(() => runningCount--)
    },
    async destroy() {
      if (runningCount === 0) return
      await shared?.destroy()
      shared = null
    },
  }
}
