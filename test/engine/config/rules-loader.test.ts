import { expect, onTestFinished, test } from 'vitest'
import type { LoadResult } from '../../../engine/config/load.ts'
import { RulesLoader } from '../../../engine/config/rules-loader.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { Totals } from '../../../engine/stats/totals.ts'
import { eventually } from '../../helpers/eventually.ts'
import type { Script } from './scripted-job.ts'

const FAILED: LoadResult = { ok: false, error: 'wrong', warnings: [], seenCount: 1, failuresCount: 0 }
const NO_WARNINGS = { warnings: [], contentHash: 'none' }

function start() {
  const lines: string[] = []
  const loader = new RulesLoader<Script>(new URL('./scripted-job.ts', import.meta.url), {
    settings: parseSettings({}).settings,
    totals: new Totals(),
    log: (level, message) => lines.push(`${level} ${message}`),
    onRules: () => {},
  })
  onTestFinished(() => loader.close())
  return { loader, lines }
}

test('8.5: lint warnings are logged once per content, also across a failed load', async () => {
  const { loader, lines } = start()
  const a = { warnings: ['a'], contentHash: 'A' }
  const b = { warnings: ['b'], contentHash: 'B' }
  const failed = { warnings: [], contentHash: '' }
  for (const lint of [a, a, failed, a, b, a]) await loader.run({ result: FAILED, lint })
  await eventually(() => expect(lines).toEqual(['warning a', 'warning b', 'warning a']))
})

test('an error while linting is one error line, and the result stands', async () => {
  const { loader, lines } = start()
  for (let i = 1; i <= 3; i++) {
    expect(await loader.run({ result: FAILED, lint: { error: 'out of luck' } })).toEqual(FAILED)
    await eventually(() => expect(lines).toHaveLength(i))
  }
  expect(lines[0]).toBe('error The rules are loaded, but they could not be checked for warnings: out of luck')
})

test('an error before the result rejects and is not logged by the loader', async () => {
  const { loader, lines } = start()
  await expect(loader.run({ result: null, lint: { error: 'no memory' } })).rejects.toThrow('no memory')
  await loader.run({ result: FAILED, lint: NO_WARNINGS })
  expect(lines).toEqual([])
})
