import { spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { describe, expect, test } from 'vitest'

const LOG = fileURLToPath(new URL('../../../scripts/commands/log.ts', import.meta.url))

interface LineOptions {
  format?: string
  level?: string // LOG_LEVEL
  lines?: [level: string, message: string, fields?: Record<string, string | number>][]
  zone?: string
}

/** What a process writes to standard error that logs some lines. */
function logged({
  format = 'text',
  level = 'info',
  lines = [['warning', 'a line']],
  zone,
}: LineOptions): string {
  const program = `
    import { createLog } from ${JSON.stringify(LOG)}
    const log = createLog(${JSON.stringify(level)}, ${JSON.stringify(format)})
    for (const line of ${JSON.stringify(lines)}) log(...line)`
  const env = { ...process.env, ...(zone && { TZ: zone }) }
  return spawnSync(process.execPath, ['--input-type=module', '-e', program], { encoding: 'utf8', env }).stderr
}

test('a log that cannot be written costs its lines, never the process', () => {
  const program = `
    import { createLog } from ${JSON.stringify(LOG)}
    const log = createLog('info', 'text')
    const later = () => new Promise((resolve) => setTimeout(resolve, 2))
    for (let i = 0; i < 50; i++, await later()) log('warning', 'x'.repeat(10_000))
    console.log('alive')`
  const full = openSync('/dev/full', 'w')
  const { status, stdout } = spawnSync(process.execPath, ['--input-type=module', '-e', program], {
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', full],
  })
  closeSync(full)
  expect([status, stdout]).toEqual([0, 'alive\n'])
})

test('monitor 12: fields of a line are members as JSON, and pairs as text', () => {
  const fields = { request_id: 'abc', route: '/api/v1/sites/{slug}', status: 200 }
  const lines: LineOptions['lines'] = [['warning', 'a line', fields]]
  expect(JSON.parse(logged({ format: 'json', lines }))).toEqual({
    '@message': 'a line',
    '@timestamp': expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    level: 'warning',
    ...fields,
  })
  expect(logged({ lines })).toMatch(
    /^time="[^"]+" level=warning msg="a line" request_id=abc route="\/api\/v1\/sites\/\{slug\}" status=200\n$/,
  )
})

describe('11.1 a line', () => {
  // biome-ignore format: the columns are the specification
  const zones = [
    // TZ            -> how a time ends
    ['UTC',             'Z'],
    ['Asia/Kolkata',    '+05:30'],
    ['Etc/GMT+3',       '-03:00'], // POSIX counts westward
  ] as const
  for (const [zone, ending] of zones) {
    test(`its time is of the local zone: ${zone}`, () => {
      const [, time] = /^time="([^"]+)" level=warning msg="a line"\n$/.exec(logged({ zone }))!
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\D/)
      expect(time.slice(19)).toBe(ending)
      expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(60_000) // of now, whatever the zone
      const { '@timestamp': stamp } = JSON.parse(logged({ zone, format: 'json' }))
      expect(stamp).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\D/)
      expect(stamp.slice(23)).toBe(ending)
      expect(Math.abs(Date.parse(stamp) - Date.now())).toBeLessThan(60_000)
    })
  }

  // biome-ignore format: the columns are the specification
  const texts = [
    // message            -> its text
    ['plain-Text_09./@^+',   'plain-Text_09./@^+'],
    ['',                     ''],
    ['two words',            '"two words"'],
    ["it's",                 `"it's"`],
    ['a:b',                  '"a:b"'],
    ['"\\',                  '"\\"\\\\"'],
    ['a\nb\r\tc',            '"a\\nb\\r\\tc"'],
    ['\x07\b\f\v',           '"\\a\\b\\f\\v"'],
    ['\0\x1b\x7f',           '"\\x00\\x1b\\x7f"'],
    ['é漢🚀',                 '"é漢🚀"'],
    ['\u0085\u00a0\u2028',   '"\\u0085\\u00a0\\u2028"'],
    ['\u{e0001}',            '"\\U000e0001"'],
  ] as const
  test('a text is bare, or quoted as Go does', () => {
    const out = logged({ lines: texts.map(([message]) => ['warning', message]) })
    const written = out.trimEnd().split('\n')
    expect(written.map((line) => line.replace(/^time="[^"]+" level=warning msg=/, ''))).toEqual(
      texts.map(([, text]) => text),
    )
  })

  test('as JSON it has three members in their order, and nothing breaks it', () => {
    const messages = texts.map(([message]) => message)
    const out = logged({ format: 'JSON', lines: messages.map((message) => ['error', message]) })
    const written = out
      .trimEnd()
      .split('\n')
      .map((line) => JSON.parse(line))
    expect(written.map((line) => line['@message'])).toEqual(messages)
    for (const line of written) expect(Object.keys(line)).toEqual(['@message', '@timestamp', 'level'])
  })

  // biome-ignore format: the columns are the specification
  const levels = [
    // LOG_LEVEL  -> what it shows
    ['panic',        'fatal'],
    ['FATAL',        'fatal'],
    ['error',        'fatal error'],
    ['Warn',         'fatal error warning'],
    ['warning',      'fatal error warning'],
    ['info',         'fatal error warning info'],
    ['debug',        'fatal error warning info debug'],
    ['trace',        'fatal error warning info debug'],
  ] as const
  for (const [level, shown] of levels) {
    test(`LOG_LEVEL=${level} shows ${shown}`, () => {
      const all = ['fatal', 'error', 'warning', 'info', 'debug']
      const out = logged({ level, lines: all.map((each) => [each, 'x']) })
      expect([...out.matchAll(/ level=(\w+) /g)].map(([, each]) => each).join(' ')).toBe(shown)
    })
  }
})
