/** Text to UTF-8 as Node converts it, and bytes that are not UTF-8 in rules. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { bytesOfText, sizeOfText, textOfBytes, writeUtf8 } from '../../../engine/match/utf8.ts'
import { size } from '../../helpers/size.ts'

const BEFORE = 3 // bytes in the buffer that stay

/** The bytes that are written. */
function write(text: string): string {
  const buffer = Buffer.alloc(BEFORE + text.length * 3 + 1, 0xaa)
  const end = writeUtf8(buffer, BEFORE, text)
  expect(buffer.subarray(0, BEFORE).every((byte) => byte === 0xaa)).toBe(true)
  expect(buffer.subarray(end).every((byte) => byte === 0xaa)).toBe(true)
  return buffer.toString('hex', BEFORE, end)
}

// biome-ignore format: a table
test.each([
  ['',                     ''],
  ['a',                    '61'],
  ['\u007f\u0080',         '7fc280'],
  ['a\u07ff\u0800',        '61dfbfe0a080'],
  ['é1',                   'c3a931'],
  ['\ud7ff\ue000\uffff',   'ed9fbfee8080efbfbf'],
  ['\ud800\udc00',         'f0908080'],
  ['\udbff\udfff',         'f48fbfbf'],
  ['😀x',                  'f09f988078'],
  ['\ud800',               'efbfbd'],
  ['\udc00\ud800',         'efbfbdefbfbd'],
  ['\ud800\ud800\udc00',   'efbfbdf0908080'],
  ['\udc00\udc00',         'efbfbdefbfbd'],
  ['\ud800a',              'efbfbd61'],
  ['\udbff\ue000',         'efbfbdee8080'],
])('%j is %s', (text, hex) => {
  expect(write(text)).toBe(hex)
  expect(Buffer.from(text).toString('hex')).toBe(hex)
})

test('property: any text is written as Node encodes it', () => {
  const unit = fc.oneof(
    fc.integer({ min: 0, max: 0xffff }).map((code) => String.fromCharCode(code)),
    fc.constantFrom('a', '\ud800', '\udbff', '\udc00', '\udfff', '\ue000', '😀'),
  )
  fc.assert(
    fc.property(fc.string({ unit, maxLength: 12 }), (text) => {
      expect(write(text)).toBe(Buffer.from(text).toString('hex'))
    }),
    { numRuns: size({ small: 500, full: 200_000 }) },
  )
})

describe('bytes that are not UTF-8', () => {
  // biome-ignore format: a table
  test.each([
    ['c3a9',       'é'],
    ['ff',         '\udcff'],
    ['80',         '\udc80'],
    ['61ff62',     'a\udcffb'],
    ['c3',         '\udcc3'],             // cut off
    ['e282',       '\udce2\udc82'],
    ['ffe282acff', '\udcff€\udcff'],
    ['fff09f9880', '\udcff😀'],
    ['f09f98c3a9', '\udcf0\udc9f\udc98é'],
    ['eda080',     '\udced\udca0\udc80'], // a surrogate is not UTF-8
  ])('%s', (hex, text) => {
    expect(textOfBytes(Buffer.from(hex, 'hex'))).toBe(text)
    expect(bytesOfText(text).toString('hex')).toBe(hex)
    expect(sizeOfText(text)).toBe(hex.length / 2)
  })

  test('surrogates that represent no byte are U+FFFD', () => {
    for (const text of ['\udc7f', '\udd00', '\ud800', '\udc7f\udcff'])
      expect(bytesOfText(text).toString('hex')).toBe(text.includes('\udcff') ? 'efbfbdff' : 'efbfbd')
  })

  test('property: bytes survive as text', () => {
    const byte = fc.oneof(
      fc.integer({ min: 0, max: 255 }),
      fc.constantFrom(0xc3, 0xa9, 0xe2, 0x82, 0xac, 0xf0, 0x9f),
    )
    fc.assert(
      fc.property(fc.array(byte, { maxLength: 10 }), (bytes) => {
        const text = textOfBytes(Buffer.from(bytes))
        expect([...bytesOfText(text)]).toEqual(bytes)
        expect(sizeOfText(text)).toBe(bytes.length)
      }),
      { numRuns: size({ small: 500, full: 200_000 }) },
    )
  })
})
