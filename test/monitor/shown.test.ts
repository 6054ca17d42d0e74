import { expect, test } from 'vitest'
import { shown } from '../../monitor/shown.ts'

test('5.11: text of strangers is cut, on one line, without what cannot be seen', () => {
  expect(shown('  a\r\nb\u0000c\u202ed\ufeff ', 80)).toBe('abcd')
  expect(shown('x'.repeat(1_000), 80)).toHaveLength(80)
  expect(shown(`${'x'.repeat(79)}\u{1f600}`, 80)).toBe(`${'x'.repeat(79)}\ufffd`)
})

test.each([
  ['a soft hyphen', 'a\u00adb'],
  ['the filler of Hangul', 'a\u3164\uffa0\u115fb'],
  ['a variation selector and a tag', 'a\ufe0f\u{e0041}b'],
  ['an inline annotation', 'a\ufff9b'],
  ['the blank braille pattern', 'a\u2800b'],
  ['separators of lines', 'a\u2028\u2029b'],
])('%s is not kept', (_, text) => {
  expect(shown(text, 80)).toBe('ab')
})

test('four marks on a letter are kept, more are not', () => {
  expect(shown(`e${'\u0301'.repeat(50)}x`, 80)).toBe(`e${'\u0301'.repeat(4)}x`)
})
