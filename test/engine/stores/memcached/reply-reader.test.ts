/** Replies in any pieces, and bytes that are no replies: reading ends, and what it yields does not depend on the pieces. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  type CommandKind,
  type ExpectedReply,
  ReplyReader,
  RequestedKeys,
} from '../../../../engine/stores/memcached/reply-reader.ts'
import { size } from '../../../helpers/size.ts'

interface CommandPlan {
  kind: CommandKind
  keys: readonly string[]
}

const LINE_END = '\r\n'
const VALUE_BYTES_MAX = 1_048_576
const LINE_BYTES_MAX = 2_048

/** What a reader yields for `pieces`. Fails if it reads a line more often than there are lines and pieces. */
function read(commands: readonly CommandPlan[], pieces: readonly string[]): string[] {
  const events: string[] = []
  const waiting: ExpectedReply[] = commands.map(({ kind, keys }) => {
    return { kind, keys: kind === 'gets' ? new RequestedKeys(keys) : null }
  })
  let turnsLeft = pieces.join('').split(LINE_END).length + pieces.length
  const reader = new ReplyReader({
    getExpected: () => {
      if (turnsLeft-- === 0) throw new Error('it reads the same bytes again and again')
      return waiting[0] ?? null
    },
    onValue: (key, value) => events.push(`value ${key}=${value}`),
    onReply: (line) => {
      waiting.shift()
      events.push(`reply ${line}`)
    },
  })
  for (const piece of pieces) {
    const defect = reader.read(piece)
    if (defect === null) continue
    events.push(`defect ${defect}`)
    break
  }
  return events
}

function cut(text: string, lengths: readonly number[]): string[] {
  const pieces: string[] = []
  let at = 0
  for (const length of lengths) {
    pieces.push(text.slice(at, at + length))
    at += length
  }
  return [...pieces, text.slice(at)]
}

const keys = fc.array(fc.constantFrom('a', 'b', 'key\xc3\xa0', 'k'.repeat(250)), {
  minLength: 1,
  maxLength: 4,
})
const commands = fc.array(fc.record({ kind: fc.constantFrom<CommandKind>('gets', 'incr', 'add'), keys }), {
  maxLength: 6,
})
const lengths = fc.array(fc.integer({ min: 0, max: 30 }), { maxLength: 40 })

// biome-ignore format: a table
const token = fc.oneof(
  fc.constantFrom(
    LINE_END, '\r', '\n', ' ', 'VALUE ', 'VALUE a 0 ', 'VALUE b 0 1\r\n7\r\n', 'VALUE a 0 2 7\r\n12\r\n', 'END\r\n', 'STORED\r\n', 'NOT_STORED\r\n',
    'NOT_FOUND\r\n', '7\r\n', 'SERVER_ERROR out of memory\r\n', 'CLIENT_ERROR cannot increment\r\n', 'ERROR\r\n', '0x2', '1e3', '-', '', '\u0000',
    'x'.repeat(LINE_BYTES_MAX), '9'.repeat(30),
  ),
  fc.integer({ min: -300, max: VALUE_BYTES_MAX + 2 }).map(String),
  fc.string({ maxLength: 12, unit: 'binary-ascii' }),
)

test('any bytes: reading ends, in the same way for any pieces, and yields no more than was asked for', () => {
  fc.assert(
    fc.property(commands, fc.array(token, { maxLength: 30 }), lengths, (plans, tokens, pieceLengths) => {
      const text = tokens.join('')
      const whole = read(plans, [text])
      expect(read(plans, cut(text, pieceLengths))).toEqual(whole)
      const replies = whole.filter((event) => event.startsWith('reply '))
      const values = whole.filter((event) => event.startsWith('value '))
      const asked = plans.filter(({ kind }) => kind === 'gets').flatMap(({ keys }) => keys)
      expect(replies.length).toBeLessThanOrEqual(plans.length)
      expect(values.length).toBeLessThanOrEqual(asked.length)
      for (const value of values) expect(asked).toContain(value.slice('value '.length, value.indexOf('=')))
    }),
    { numRuns: size({ small: 1_000, full: 200_000 }) },
  )
})

test('a length that points back to its own line ends the connection', () => {
  for (let bytes = 1; bytes < 100; bytes++)
    expect(read([{ kind: 'gets', keys: ['a'] }], [`VALUE a 0 -${bytes}\r\nEND\r\n`])).toEqual([
      `defect unexpected value: "VALUE … 0 -${bytes}"`,
    ])
})

const VALID = {
  gets: ['END', 'SERVER_ERROR busy'],
  incr: [
    '7',
    '18446744073709551615',
    '5  ',
    'NOT_FOUND',
    'CLIENT_ERROR cannot increment or decrement',
    'SERVER_ERROR busy',
  ],
  add: ['STORED', 'NOT_STORED', 'SERVER_ERROR out of memory storing object'],
}

test('replies that fit: each goes to its command, with the values of any keys in any order', () => {
  const reply = fc.record({
    kind: fc.constantFrom<CommandKind>('gets', 'incr', 'add'),
    keys,
    found: fc.shuffledSubarray([0, 1, 2, 3]),
    value: fc.constantFrom('', '7', '7\r\nEND', 'VALUE a 0 1\r\n7\r\n'),
    line: fc.nat(),
  })
  fc.assert(
    fc.property(fc.array(reply, { maxLength: 6 }), lengths, (plans, pieceLengths) => {
      const expected: string[] = []
      let text = ''
      for (const { kind, keys, found, value, line } of plans) {
        for (const i of kind === 'gets' ? found.filter((index) => index < keys.length) : []) {
          text += `VALUE ${keys[i]} 0 ${value.length} 9\r\n${value}\r\n`
          expected.push(`value ${keys[i]}=${value}`)
        }
        const last = VALID[kind][line % VALID[kind].length]
        text += `${last}\r\n`
        expected.push(`reply ${last}`)
      }
      expect(read(plans, cut(text, pieceLengths))).toEqual(expected)
    }),
    { numRuns: size({ small: 300, full: 50_000 }) },
  )
})

test('the longest line and the longest value are read, one byte more is not', () => {
  const long = `SERVER_ERROR ${'x'.repeat(LINE_BYTES_MAX - 13)}`
  const get: CommandPlan[] = [{ kind: 'gets', keys: ['a'] }]
  expect(read(get, [`${long}\r`, '\n'])).toEqual([`reply ${long}`])
  expect(read(get, [`${long}x\r\n`])).toEqual(['defect it sent a line of more than 2048 bytes'])
  const value = 'v'.repeat(VALUE_BYTES_MAX)
  expect(read(get, [`VALUE a 0 ${value.length}\r\n${value}\r\n`])).toEqual([`value a=${value}`])
  expect(read(get, [`VALUE a 0 ${value.length + 1}\r\n`])).toEqual([
    'defect unexpected value: "VALUE … 0 1048577"',
  ])
})
