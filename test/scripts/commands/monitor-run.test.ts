/** `sluice monitor` without a command: what it logs before it opens a port. */
import { expect, test } from 'vitest'
import { monitorIn } from './monitor/command.ts'

const INVALID = { EGRESS_TEST_ALLOW: '127.0.0.0/8', NODE_ENV: 'production' } // ends the start after the warnings

// biome-ignore format: a table
const cases = [
  // settings, warning
  [{},                       'Counters are kept in the memory of this process'],
  [{ REDIS_AUTH: 'secret' }, 'REDIS_AUTH is set and REDIS_URL is not: counters are kept in Redis at the default address'],
  [{ BACKEND_TYPE: 'memory' }, null],
] as const

for (const [settings, warning] of cases) {
  test(`${JSON.stringify(settings)}: ${warning ? 'a warning about the store' : 'no warning'}`, async () => {
    const { code, err } = await monitorIn({}, { ...INVALID, ...settings }).run()
    expect(code).toBe(2)
    if (warning) expect(err).toContain(`level=warning msg="${warning}`)
    else expect(err).not.toContain('level=warning')
    expect(err).toContain('[EGRESS_SETTING]')
  })
}
