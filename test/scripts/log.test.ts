import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const LOG = fileURLToPath(new URL('../../scripts/log.ts', import.meta.url))

/** What a process writes to standard error that logs one line. */
function logged(format: string, fields: Record<string, string | number>): string {
  const program = `
    import { createLog } from ${JSON.stringify(LOG)}
    createLog('info', ${JSON.stringify(format)})('warning', 'a line', ${JSON.stringify(fields)})`
  return spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8' }).stderr
}

test('monitor 12: fields of a line are members as JSON, and pairs as text', () => {
  const fields = { request_id: 'abc', route: '/api/v1/sites/{slug}', status: 200 }
  expect(JSON.parse(logged('json', fields))).toEqual({
    '@message': 'a line',
    '@timestamp': expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    level: 'warning',
    ...fields,
  })
  expect(logged('text', fields)).toMatch(
    /^time="[^"]+" level=warning msg="a line" request_id=abc route="\/api\/v1\/sites\/\{slug\}" status=200\n$/,
  )
})
