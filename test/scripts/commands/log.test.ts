/** Lines of the log (spec 11.1) and what happens to those that cannot be written. */
import { spawn, spawnSync } from 'node:child_process'
import { closeSync, openSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, describe, expect, test } from 'vitest'
import type { LogFields, LogLevel } from '../../../engine/runtime/messages.ts'
import { createLog } from '../../../scripts/commands/log.ts'

const LOG = fileURLToPath(new URL('../../../scripts/commands/log.ts', import.meta.url))

interface LineOptions {
  format?: string
  level?: string // LOG_LEVEL
  lines?: [level: LogLevel, message: string, fields?: LogFields][]
  zone?: string
}

const { TZ } = process.env
afterEach(() => {
  if (TZ === undefined) delete process.env.TZ
  else process.env.TZ = TZ
})

/** The text that the log writes for these lines. */
function formatLines({
  format = 'text',
  level = 'info',
  lines = [['warning', 'a line']],
  zone,
}: LineOptions): string {
  if (zone) process.env.TZ = zone
  let text = ''
  const write = (line: string) => {
    text += line
  }
  const log = createLog(level, format, { write })
  for (const line of lines) log(...line)
  return text
}

const PROGRAM = `
  import { createLog, openStandardError } from ${JSON.stringify(LOG)}
  const log = createLog('info', 'text', openStandardError())`

test('lines are lost while the log cannot be written, and the process goes on', () => {
  const program = `${PROGRAM}
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

test('a closed pipe costs the lines, not the process', async () => {
  const program = `${PROGRAM}
    process.stdin.once('data', () => {
      for (let i = 0; i < 10; i++) log('warning', 'x')
      console.log('alive')
      process.exit()
    })
    console.log('ready')`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program])
  let out = ''
  child.stdout.setEncoding('utf8').on('data', (text) => {
    out += text
    if (text === 'ready\n') {
      child.stderr.destroy()
      child.stderr.once('close', () => child.stdin.write('go'))
    }
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  expect([code, out]).toEqual([0, 'ready\nalive\n'])
})

test('lines written before the end of a process are read from a pipe in full, however slowly', async () => {
  const LINES = 2_000 // with 150 bytes each more than a pipe holds
  const program = `${PROGRAM}
    for (let i = 0; i < ${LINES}; i++) log('warning', i + ' ' + 'x'.repeat(100))
    process.exit()`
  const child = spawn(process.execPath, ['--input-type=module', '-e', program])
  let text = ''
  child.stderr.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
    child.stderr.pause()
    setImmediate(() => child.stderr.resume())
  })
  const code = await new Promise((resolve) => child.once('close', resolve))
  const numbers = [...text.matchAll(/msg="(\d+) x{100}"\n/g)].map(([, number]) => Number(number))
  expect(code).toBe(0)
  expect(numbers).toEqual(Array.from({ length: LINES }, (_, i) => i))
})

test('monitor 12: fields of a line are members as JSON, and pairs as text', () => {
  const fields = { request_id: 'abc', route: '/api/v1/sites/{slug}', status: 200 }
  const lines: LineOptions['lines'] = [['warning', 'a line', fields]]
  expect(JSON.parse(formatLines({ format: 'json', lines }))).toEqual({
    '@message': 'a line',
    '@timestamp': expect.stringMatching(/^\d{4}-\d\d-\d\dT/),
    level: 'warning',
    ...fields,
  })
  expect(formatLines({ lines })).toMatch(
    /^time="[^"]+" level=warning msg="a line" request_id=abc route="\/api\/v1\/sites\/\{slug\}" status=200\n$/,
  )
})

describe('11.1 a line', () => {
  // biome-ignore format: the columns are the specification
  const zones = [
    // TZ            -> end of a time
    ['UTC',             'Z'],
    ['Asia/Kolkata',    '+05:30'],
    ['Etc/GMT+3',       '-03:00'], // POSIX counts westward
  ] as const
  for (const [zone, ending] of zones) {
    test(`the time is of the local zone: ${zone}`, () => {
      const [, time] = /^time="([^"]+)" level=warning msg="a line"\n$/.exec(formatLines({ zone }))!
      expect(time).toMatch(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\D/)
      expect(time.slice(19)).toBe(ending)
      expect(Math.abs(Date.parse(time) - Date.now())).toBeLessThan(60_000) // now, whatever the zone
      const { '@timestamp': stamp } = JSON.parse(formatLines({ zone, format: 'json' }))
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
  test('a text is bare, or quoted like in Go', () => {
    const out = formatLines({ lines: texts.map(([message]) => ['warning', message]) })
    const written = out.trimEnd().split('\n')
    expect(written.map((line) => line.replace(/^time="[^"]+" level=warning msg=/, ''))).toEqual(
      texts.map(([, text]) => text),
    )
  })

  test('as JSON it has three members in this order, whatever the message', () => {
    const messages = texts.map(([message]) => message)
    const out = formatLines({ format: 'JSON', lines: messages.map((message) => ['error', message]) })
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
      const all = ['fatal', 'error', 'warning', 'info', 'debug'] as const
      const out = formatLines({ level, lines: all.map((each) => [each, 'x']) })
      expect([...out.matchAll(/ level=(\w+) /g)].map(([, each]) => each).join(' ')).toBe(shown)
    })
  }
})
