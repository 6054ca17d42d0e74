import { expect, test } from 'vitest'
import { accessWarning } from '../../../transports/debug/access.ts'

// biome-ignore format: the columns are the specification
const cases = [
  // host, token -> warns
  ['0.0.0.0',          '',  true],
  ['::',               '',  true],
  ['10.0.0.1',         '',  true],
  ['127.0.0.1.org',    '',  true],
  ['a.localhost',      '',  true],
  ['127.0.0.1',        '',  false],
  ['127.1.2.3',        '',  false],
  ['::ffff:127.0.0.1', '',  false],
  ['::1',              '',  false],
  ['localhost',        '',  false],
  ['0.0.0.0',          't', false],
] as const

for (const [host, token, warns] of cases) {
  test(`6.5: the debug port on ${host} with token "${token}" ${warns ? 'warns' : 'does not warn'}`, () => {
    expect(accessWarning(host, token) !== null).toBe(warns)
  })
}

test('6.5: the warning says what to set', () => {
  expect(accessWarning('0.0.0.0', '')).toContain('Set DEBUG_TOKEN, or DEBUG_HOST=127.0.0.1.')
})
