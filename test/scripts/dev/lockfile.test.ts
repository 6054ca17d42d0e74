import { describe, expect, test } from 'vitest'
import { checkLock, completeIntegrity, type Lock, readLock } from '../../../scripts/dev/lockfile.ts'

const ROOT = new URL('../../../', import.meta.url)
const INTEGRITY = `sha512-${'A'.repeat(86)}==`

function createLock(packages: Lock['packages']): Lock {
  return { packages: { '': { version: '0.1.0' }, ...packages } }
}

test('the lock file of this project has only the known gaps', () => {
  expect(checkLock(readLock(ROOT))).toEqual([])
})

describe('diagnostics', () => {
  // biome-ignore format: a table
  const cases = [
    // an entry                                                                         known gaps   diagnostic
    ['node_modules/a',                { version: '1.0.0', integrity: INTEGRITY },       [],          null],
    ['node_modules/a',                { version: '1.0.0' },                             [],          'a@1.0.0 has no integrity. Run node scripts/dev/lockfile.ts --complete.'],
    ['node_modules/b/node_modules/@c/a', { version: '1.0.0' },                          [],          '@c/a@1.0.0 has no integrity. Run node scripts/dev/lockfile.ts --complete.'],
    ['node_modules/a',                { name: '@c/d', version: '1.0.0' },               [],          '@c/d@1.0.0 has no integrity. Run node scripts/dev/lockfile.ts --complete.'],
    ['node_modules/a',                { version: '1.0.0' },                             ['a@1.0.0'], null],
    ['node_modules/a',                { version: '1.0.0', integrity: INTEGRITY },       ['a@1.0.0'], 'a@1.0.0 is not a gap. Remove it from KNOWN_GAPS in scripts/dev/lockfile.ts.'],
    ['node_modules/a',                { resolved: '../a', link: true },                 [],          null],
    ['node_modules/a',                { version: '1.0.0', inBundle: true },             [],          null],
    ['node_modules/a',                { version: '1.0.0', integrity: INTEGRITY, resolved: 'https://registry.example/a.tgz' }, [], 'node_modules/a names a registry. Remove "resolved"; .npmrc keeps npm from writing it.'],
  ] as const
  for (const [path, entry, known, diagnostic] of cases) {
    test(`${path} ${JSON.stringify(entry)}: ${diagnostic ?? 'none'}`, () => {
      const expected = diagnostic === null ? [] : [`package-lock.json: ${diagnostic}`]
      expect(checkLock(createLock({ [path]: entry }), [...known])).toEqual(expected)
    })
  }

  test('a new version of a known gap is a new gap', () => {
    expect(checkLock(createLock({ 'node_modules/a': { version: '1.0.1' } }), ['a@1.0.0'])).toHaveLength(2)
  })
})

test('an integrity from the registry is written where npm writes it; packages without one are returned', () => {
  const lock = createLock({
    'node_modules/a': { version: '1.0.0', link: false },
    'node_modules/b': { version: '2.0.0' },
    'node_modules/c': { version: '3.0.0' },
  })
  const answers: Record<string, string> = { 'a@1.0.0': INTEGRITY, 'b@2.0.0': '', 'c@3.0.0': 'npm error' }
  expect(completeIntegrity(lock, (spec) => answers[spec])).toEqual(['b@2.0.0', 'c@3.0.0'])
  expect(JSON.stringify(lock.packages['node_modules/a'])).toBe(
    `{"version":"1.0.0","integrity":"${INTEGRITY}","link":false}`,
  )
})
