/** RESP: commands and replies, however the bytes are cut, checked against a naive reader. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { Counter } from '../../../../engine/stores/counter.ts'
import {
  commandText,
  DEPTH_MAX,
  ErrorReply,
  HitWriter,
  LINE_BYTES_MAX,
  REPLY_BYTES_MAX,
  type Reply,
  RespReader,
  STRING_BYTES_MAX,
} from '../../../../engine/stores/redis/resp.ts'
import { anyCharacter } from '../../../helpers/any-character.ts'
import { seeded, size } from '../../../helpers/size.ts'

/** Reads the chunks through one buffer that is overwritten each time, as sockets do. */
function read(chunks: Uint8Array[]): { replies: Reply[]; fault: string } {
  const replies: Reply[] = []
  const put = (reply: Reply) => replies.push(reply)
  const reader = new RespReader({ integer: put, reply: put })
  const shared = Buffer.alloc(Math.max(1, ...chunks.map((chunk) => chunk.length)) + 3)
  for (const chunk of chunks) {
    shared.fill('\r\n:') // what stands behind the chunk is not of it
    shared.set(chunk)
    if (!reader.read(shared, chunk.length)) break
  }
  return { replies, fault: reader.fault }
}

function cut(bytes: Uint8Array, sizes: readonly number[]): Uint8Array[] {
  const chunks: Uint8Array[] = []
  for (let at = 0, i = 0; at < bytes.length; i++) {
    const length = sizes[i % sizes.length]
    chunks.push(bytes.subarray(at, at + length))
    at += length
  }
  return chunks
}

/** The naive reader: all bytes at once, one value after the other, no bounds. */
function readNaively(bytes: Buffer): Reply[] {
  let at = 0
  const line = () => {
    const end = bytes.indexOf('\r\n', at)
    const text = bytes.toString('utf8', at, end)
    at = end + 2
    return text
  }
  const value = (): Reply => {
    const [kind, text] = ((all: string) => [all[0], all.slice(1)])(line())
    if (kind === ':') return Number.isSafeInteger(Number(text)) ? Number(text) : BigInt(text)
    if (kind === '+') return text
    if (kind === '-') return new ErrorReply(text)
    const count = Number(text)
    if (count < 0) return null
    if (kind === '*') return Array.from({ length: count }, value)
    const found = bytes.toString('utf8', at, at + count)
    at += count + 2
    return found
  }
  const replies: Reply[] = []
  while (at < bytes.length) replies.push(value())
  return replies
}

function encode(reply: Reply): string {
  if (reply === null) return '$-1\r\n'
  if (typeof reply === 'number' || typeof reply === 'bigint') return `:${reply}\r\n`
  if (reply instanceof ErrorReply) return `-${reply.text}\r\n`
  if (typeof reply === 'string') return `$${Buffer.byteLength(reply)}\r\n${reply}\r\n`
  return `*${reply.length}\r\n${reply.map(encode).join('')}`
}

const line = fc.string({ unit: 'grapheme', maxLength: 30 }).map((text) => text.replaceAll(/[\r\n]/g, ' '))
const text = fc.string({ unit: 'grapheme', maxLength: 30 }) // with line ends of its own
const { reply } = fc.letrec<{ reply: Reply }>((tie) => ({
  reply: fc.oneof(
    { maxDepth: DEPTH_MAX - 1, depthSize: 'small' },
    fc.integer(),
    fc.nat(18).map((n) => 10 ** n),
    fc.bigInt(-(2n ** 63n), 2n ** 63n - 1n).map((n) => (Number.isSafeInteger(Number(n)) ? Number(n) : n)),
    fc.constantFrom(null, '', '\r\n', ':1\r\n'),
    text,
    line.map((what) => new ErrorReply(what)),
    fc.array(tie('reply'), { maxLength: 5 }),
  ),
}))

test('any replies, cut anywhere, equal those of the naive reader', () => {
  const sizes = fc.array(fc.integer({ min: 1, max: 12 }), { minLength: 1, maxLength: 6 })
  fc.assert(
    fc.property(fc.array(reply, { maxLength: 8 }), sizes, (replies, lengths) => {
      const bytes = Buffer.from(replies.map(encode).join(''))
      const expected = { replies: readNaively(bytes), fault: '' }
      expect(read([bytes])).toEqual(expected)
      expect(read(cut(bytes, lengths))).toEqual(expected)
      expect(read(cut(bytes, [1]))).toEqual(expected)
    }),
    { numRuns: size({ small: 300, full: 100_000 }), seed: 5 },
  )
})

test('any bytes: the same replies and the same fault, however they are cut', () => {
  const random = seeded(3)
  const alphabet = '::::$*+-0123456789\r\n\r\na\xff'
  for (let i = 0; i < size({ small: 3_000, full: 1_000_000 }); i++) {
    const length = Math.floor(random() * 40)
    const bytes = Buffer.from(
      Array.from({ length }, () => alphabet.charCodeAt(Math.floor(random() * alphabet.length))),
    )
    const whole = read([bytes])
    expect([bytes.toString('latin1'), read(cut(bytes, [1]))]).toEqual([bytes.toString('latin1'), whole])
  }
})

// biome-ignore format: the columns are the specification
const cases: [bytes: string, replies: Reply[], fault: string][] = [
  // bytes                              -> replies                           fault
  [':1\r\n:22\r\n',                        [1, 22],                          ''],
  [':0\r\n:-1\r\n:+7\r\n:007\r\n',         [0, -1, 7, 7],                    ''],
  [':999999999999999\r\n',                 [999_999_999_999_999],            ''],
  [':9007199254740991\r\n',                [9007199254740991],               ''],
  [':9007199254740993\r\n',                [9007199254740993n],              ''],
  [':-9223372036854775808\r\n',            [-(2n ** 63n)],                   ''],
  ['+OK\r\n$-1\r\n*-1\r\n*0\r\n$0\r\n\r\n', ['OK', null, null, [], ''],      ''],
  ['-ERR no\r\n*2\r\n:1\r\n-ERR no\r\n',   [new ErrorReply('ERR no'), [1, new ErrorReply('ERR no')]], ''],
  ['*2\r\n*1\r\n*1\r\n:1\r\n$1\r\na\r\n:2\r\n', [[[[1]], 'a'], 2],           ''],
  [':1\r\n:2',                             [1],                              ''], // the rest may come
  [':1\r\nhello\r\n',                      [1],                              'a reply starts with byte 104'],
  ['HTTP/1.1 400 Bad Request\r\n',         [],                               'a reply starts with byte 72'],
  [':\r\n',                                [],                               'not an integer'],
  [':1x\r\n',                              [],                               'not an integer'],
  [':1\rx',                                [],                               'a line without an end'],
  [':123456789012345678901\r\n',           [],                               'not an integer'],
  ['$x\r\n',                               [],                               'not a length'],
  ['$-2\r\n',                              [],                               'not a length'],
  ['$1\r\nab\r\n',                         [],                               'a string longer than its length'],
  ['*-2\r\n',                              [],                               'not a length'],
  [`$${STRING_BYTES_MAX + 1}\r\n`,         [],                               `a string of more than ${STRING_BYTES_MAX} bytes`],
  ['*9999999999\r\n',                      [],                               'an array of 9999999999 items'],
  ['*1\r\n'.repeat(DEPTH_MAX + 1),         [],                               `arrays deeper than ${DEPTH_MAX}`],
  [`+${'a'.repeat(LINE_BYTES_MAX + 1)}`,   [],                               `a line of more than ${LINE_BYTES_MAX} bytes`],
]

for (const [bytes, replies, fault] of cases) {
  test(`${JSON.stringify(bytes.slice(0, 40))} reads as ${replies.length} replies${fault && `, then: ${fault}`}`, () =>
    expect(read([Buffer.from(bytes)])).toEqual({ replies, fault }))
}

test('a reply of many strings is bounded, and so is its memory', () => {
  const part = Buffer.from(`$1000000\r\n${'a'.repeat(1_000_000)}\r\n`)
  const { replies, fault } = read([Buffer.from('*100\r\n'), ...Array.from({ length: 100 }, () => part)])
  expect({ replies, fault }).toEqual({ replies: [], fault: `a reply of more than ${REPLY_BYTES_MAX} bytes` })
})

test('after stop no reply is delivered, of the current chunk either', () => {
  const heard: Reply[] = []
  const reader = new RespReader({
    integer(value) {
      heard.push(value)
      reader.stop()
    },
    reply() {},
  })
  expect(reader.read(Buffer.from(':1\r\n:2\r\n'), 8)).toBe(false)
  expect(heard).toEqual([1])
})

test('commands have lengths in bytes, for any text', () => {
  const writer = new HitWriter()
  const key = fc.string({ unit: anyCharacter, maxLength: 100 }).map((text) => text.repeat(20))
  fc.assert(
    fc.property(key, fc.bigInt(0n, 2n ** 63n - 1n), fc.nat(), (text, hits, sec) => {
      const counter = new Counter(text)
      writer.incrby(counter, String(hits))
      writer.expire(counter, sec)
      const decoded = Buffer.from(text).toString() // a lone surrogate becomes U+FFFD
      expect(read([writer.take()]).replies).toEqual([
        ['INCRBY', decoded, String(hits)],
        ['EXPIRE', decoded, String(sec)],
      ])
      expect(read([Buffer.from(commandText(['GET', text, sec]))]).replies).toEqual([
        ['GET', decoded, String(sec)],
      ])
    }),
    { numRuns: size({ small: 100, full: 20_000 }), seed: 5 },
  )
})

test('a lone surrogate has the three bytes of U+FFFD', () => {
  expect(commandText(['\ud83e'])).toBe('*1\r\n$3\r\n\ud83e\r\n')
  expect(new Counter('\ud83e').size).toBe(3)
})

test('the buffer grows for many commands and long keys, and bytes still being sent are kept', () => {
  const writer = new HitWriter()
  const keys = [...Array.from({ length: 4_096 }, (_, i) => `key ${i}`), 'é'.repeat(3_000_000)]
  for (const key of keys) writer.incrby(new Counter(key), '1')
  const bytes = writer.take()
  writer.renew()
  writer.incrby(new Counter('next'), '7')
  expect(read([writer.take()]).replies).toEqual([['INCRBY', 'next', '7']])
  expect(bytes.toString()).toBe(keys.map((key) => commandText(['INCRBY', key, 1])).join(''))
})
