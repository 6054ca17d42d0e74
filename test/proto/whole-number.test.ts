import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { wholeNumber } from '../../proto/whole-number.ts'

describe('6.3, A.6: whole numbers, as JSON writes them', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['0', 0], ['7', 7], ['-7', -7], ['7.0', 7], ['7.000', 7], ['1e2', 100], ['1E+2', 100], ['70e-1', 7], ['0.7e1', 7],
    ['1.25e2', 125], ['0.001e3', 1], ['0.0', 0], ['0e99', 0], ['0.00e-5', 0], ['-0', 0], ['-0.0e1', 0],
    ['9007199254740991', Number.MAX_SAFE_INTEGER], ['9007199254740992', 2n ** 53n], ['9007199254740993', 2n ** 53n + 1n],
    ['-9007199254740993', -(2n ** 53n) - 1n], ['18446744073709551615', 2n ** 64n - 1n],
    ['1844674407370955161.5e1', 2n ** 64n - 1n], ['18446744073709551616', 2n ** 64n],
    ['1e20', 10n ** 20n], ['1e999999999999999999999', 10n ** 20n], // too big, whatever the value
    ['-1e400', -(10n ** 20n)],
    // not whole
    ['1.5', null], ['1.25e1', null], ['1e-1', null], ['1e-999999999999999999999', null],
    ['1.00000000000000000001', null], ['0.1', null], ['9007199254740991.5', null],
    // no JSON
    ['', null], [' 7', null], ['7 ', null], ['07', null], ['+7', null], ['.7', null], ['7.', null], ['1e', null],
    ['0x7', null], ['--7', null], ['7n', null], ['1_0', null], ['Infinity', null], ['\u0667', null], ['7\n', null],
  ] as const
  for (const [text, value] of cases) {
    test(`${JSON.stringify(text)} is ${value}`, () => expect(wholeNumber(text)).toBe(value))
  }
})

test('6.3: the value does not depend on the place of the point and the exponent', () => {
  fc.assert(
    fc.property(
      fc.bigInt({ min: 0n, max: 2n ** 64n - 1n }),
      fc.integer({ min: -30, max: 30 }),
      (value, places) => {
        const zeros = '0'.repeat(40)
        const digits = `${zeros}${value}${zeros}`
        const point = digits.length - zeros.length + places
        const written = `${digits.slice(0, point).replace(/^0+(?=.)/, '')}.${digits.slice(point)}e${-places}`
        expect(BigInt(wholeNumber(written)!)).toBe(value)
        expect(wholeNumber(written.replace('e', '1e'))).toBe(null) // one more digit, far behind the point
      },
    ),
  )
})

test('a million digits are read in linear time', () => {
  const started = process.cpuUsage()
  const zeros = '0'.repeat(1_000_000)
  expect(wholeNumber(`1${zeros}e-1000000`)).toBe(1)
  expect(wholeNumber(`0.${zeros}1e1000001`)).toBe(1)
  expect(wholeNumber(`1${zeros}1`)).toBe(10n ** 20n)
  expect(wholeNumber(`1.${zeros}1`)).toBe(null)
  const { user, system } = process.cpuUsage(started)
  expect((user + system) / 1_000).toBeLessThan(2_000) // ms of processor time; quadratic time would be minutes
})
