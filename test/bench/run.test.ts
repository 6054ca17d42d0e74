/** Every benchmark runs at its small size and prints its rows. Figures are not checked: they depend on the machine. */
import { execFile } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'

const BENCH = fileURLToPath(new URL('../../bench/', import.meta.url))
const HELPERS = ['run.ts', 'size.ts', 'measure.ts', 'engine.ts', 'serving.ts']
const TEST_MS_MAX = 600_000

const names = readdirSync(BENCH).filter((name) => name.endsWith('.ts') && !HELPERS.includes(name))

/** Two at a time: each promise is resolved when its benchmark has ended. */
const lanes = [Promise.resolve(), Promise.resolve()]

async function runInLane<T>(work: () => Promise<T>): Promise<T> {
  const previous = lanes.shift()
  const done = Promise.withResolvers<void>()
  lanes.push(done.promise)
  await previous
  return work().finally(done.resolve)
}

describe.concurrent('small sizes', () => {
  test.for(names)(
    '%s runs, and prints its floor first',
    { timeout: TEST_MS_MAX },
    async (name, { expect }) => {
      const args = ['--disable-warning=ExperimentalWarning', BENCH + name] // as run.ts does
      const { stdout, stderr } = await runInLane(() => promisify(execFile)(process.execPath, args))
      expect(stderr).toBe('')
      expect(stdout).toMatch(/^\w+ +floor .*\d/)
      expect(stdout).not.toMatch(/NaN|undefined/)
    },
  )
})

test('an unknown name prints the names there are', async () => {
  const failing = promisify(execFile)(process.execPath, [`${BENCH}run.ts`, 'nothing'])
  await expect(failing).rejects.toMatchObject({
    code: 2,
    stderr: expect.stringContaining('names: batch, breaker, decide, '),
  })
})
