/** The log of a process that serves: settings under the names the operator wrote, and the fatal line last. */
import { spawnSync } from 'node:child_process'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'

const resolvePath = (file: string) => fileURLToPath(new URL(`../../../${file}`, import.meta.url))

/** What a process writes to standard error that runs `body` with these settings. */
function written(body: string, settings: Record<string, string>): string {
  const program = `
    import { parseSettings } from ${JSON.stringify(resolvePath('engine/settings/parse.ts'))}
    import { processLog } from ${JSON.stringify(resolvePath('scripts/commands/process-log.ts'))}
    const { log, endWithFatal } = processLog(parseSettings(${JSON.stringify(settings)}))
    ${body}`
  const args = ['--input-type=module', '-e', program]
  return spawnSync(process.execPath, args, { encoding: 'utf8' }).stderr
}

/** Levels and messages. */
function logged(body: string, settings: Record<string, string> = {}): string[] {
  const lines = written(body, { ...settings, LOG_FORMAT: 'json' })
    .trim()
    .split('\n')
    .filter(Boolean)
  return lines.map((line) => {
    const { level, '@message': message } = JSON.parse(line)
    return `${level} ${message}`
  })
}

test('a setting is named as it was written', () => {
  const line = "log('error', 'REDIS_URL \"x\": it is not host:port.')"
  expect(logged(line)).toEqual(['error REDIS_URL "x": it is not host:port.'])
  expect(logged(line, { KVSTORE_URL: 'x:1' })).toEqual(['error KVSTORE_URL "x": it is not host:port.'])
})

test('LOG_LEVEL and LOG_FORMAT apply', () => {
  expect(logged("log('info', 'one'); log('warning', 'two')", { LOG_LEVEL: 'warn' })).toEqual(['warning two'])
  expect(written("log('warning', 'two words')", { LOG_FORMAT: 'text' })).toMatch(
    / level=warning msg="two words"\n$/,
  )
})

// biome-ignore format: a table
const endings = [
  // logged before the end,                            repeated at the end
  ["log('fatal', 'why')",                             []],
  ["log('fatal', 'why'); log('warning', 'stopped')", ['fatal why']],
  ["log('warning', 'stopped')", []],
] as const

for (const [lines, repeated] of endings) {
  test(`a start that fails ends with its fatal line: ${lines}`, () => {
    const before = logged(lines)
    expect(logged(`${lines}; endWithFatal()`)).toEqual([...before, ...repeated])
  })
}
