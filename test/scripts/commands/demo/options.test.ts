import { expect, test } from 'vitest'
import { parseDemoOptions } from '../../../../scripts/commands/demo/options.ts'

// biome-ignore format: a table
const REFUSED = [
  [['--addr', '0.0.0.0:8090'], 'Use a loopback address'],
  [['--addr', ':8090'],        'Use a loopback address'],
  [['--addr', 'nowhere'],      'Use host:port'],
  [['--days', '0'],            'not a whole number from 1 to 31'],
  [['--days', '1e1'],          'not a whole number from 1 to 31'],
  [['--days', '32'],           'not a whole number from 1 to 31'],
  [['--unknown'],              '--unknown'],
  [['word'],                   'word'],
] as const

test.each(REFUSED)('%j is refused', (args, message) => {
  expect(() => parseDemoOptions(args)).toThrow(message)
})

test('the defaults, and every option', () => {
  expect(parseDemoOptions([])).toEqual({ host: '127.0.0.1', port: 8_090, days: 30, keepsFiles: false })
  const all = ['--addr', 'localhost:0', '--days', '31', '--keep']
  expect(parseDemoOptions(all)).toEqual({ host: 'localhost', port: 0, days: 31, keepsFiles: true })
  expect(parseDemoOptions(['--help'])).toBeNull()
  expect(parseDemoOptions(['-h'])).toBeNull()
})
