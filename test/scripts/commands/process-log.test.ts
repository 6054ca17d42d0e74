/** The log of a process that serves: settings under the names the operator wrote, and the fatal line last. */
import { expect, test } from 'vitest'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { createProcessLog, type ProcessLog } from '../../../scripts/commands/process-log.ts'

/** The text that `write` logs with these settings. */
function formatLog(write: (log: ProcessLog) => void, settings: Record<string, string>): string {
  let text = ''
  const destination = {
    write(line: string) {
      text += line
    },
  }
  write(createProcessLog(parseSettings(settings), destination))
  return text
}

/** Levels and messages. */
function logLines(write: (log: ProcessLog) => void, settings: Record<string, string> = {}): string[] {
  const lines = formatLog(write, { ...settings, LOG_FORMAT: 'json' })
    .split('\n')
    .slice(0, -1)
  return lines.map((line) => {
    const { level, '@message': message } = JSON.parse(line)
    return `${level} ${message}`
  })
}

test('a setting has the name that the operator wrote', () => {
  const write = ({ log }: ProcessLog) => log('error', 'REDIS_URL "x": it is not host:port.')
  expect(logLines(write)).toEqual(['error REDIS_URL "x": it is not host:port.'])
  expect(logLines(write, { KVSTORE_URL: 'x:1' })).toEqual(['error KVSTORE_URL "x": it is not host:port.'])
})

test('LOG_LEVEL and LOG_FORMAT apply', () => {
  const write = ({ log }: ProcessLog) => {
    log('info', 'one')
    log('warning', 'two words')
  }
  expect(logLines(write, { LOG_LEVEL: 'warn' })).toEqual(['warning two words'])
  expect(formatLog(write, { LOG_FORMAT: 'text' })).toMatch(/ level=warning msg="two words"\n$/)
})

// biome-ignore format: a table
const endings = [
  // logged before the end,                                         repeated at the end
  [[['fatal', 'why']],                                              []],
  [[['fatal', 'why'], ['warning', 'stopped']],                      ['fatal why']],
  [[['fatal', 'why'], ['debug', 'below LOG_LEVEL']],                []],
  [[['fatal', 'one'], ['fatal', 'two'], ['warning', 'stopped']],    ['fatal two']],
  [[['warning', 'stopped']],                                        []],
] as const

for (const [lines, repeated] of endings) {
  test(`the last line of a failed start is its fatal line: ${lines.join('; ')}`, () => {
    const write = ({ log }: ProcessLog) => {
      for (const [level, message] of lines) log(level, message)
    }
    const writeAndEnd = (log: ProcessLog) => {
      write(log)
      log.endWithFatal()
    }
    expect(logLines(writeAndEnd)).toEqual([...logLines(write), ...repeated])
  })
}
