import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const BENCH = fileURLToPath(new URL('../../bench/', import.meta.url))
const names = readdirSync(BENCH).filter(
  (name) => name.endsWith('.ts') && !/run|size|measure|engine|serving/.test(name),
)

for (const name of names) {
  test(`the benchmark ${name} still runs, at its small size, and prints its floor first`, () => {
    const args = ['--disable-warning=ExperimentalWarning', BENCH + name] // as run.ts does
    const { status, stdout, stderr } = spawnSync(process.execPath, args, { encoding: 'utf8' })
    expect({ status, stderr }).toEqual({ status: 0, stderr: '' })
    expect(stdout).toMatch(/^\w+ +floor .*\d/)
  })
}

test('a benchmark that does not exist prints those that do', () => {
  const { status, stderr } = spawnSync(process.execPath, [`${BENCH}run.ts`, 'nothing'], { encoding: 'utf8' })
  expect(status).toBe(2)
  expect(stderr).toContain(names[0].replace('.ts', ''))
})
