/**
 * Parses whole numbers in JSON syntax, with their exact value.
 *
 *     7 · 7.0 · 70e-1 · 0.7e1          are 7
 *     18446744073709551615             is 2^64-1, a bigint: a double would make it 2^64
 *     1.00000000000000000001           is not whole, although it is 1 as a double
 */

/** A JSON number at `lastIndex`: sign, whole digits, decimals, exponent. */
export const DECIMAL = /(-?)(0|[1-9]\d*)(?:\.(\d+))?(?:[eE]([+-]?\d+))?/y

const DIGITS_MAX = 20 // of 2^64-1; a longer number is out of range, so its value does not matter
const TOO_BIG = 10n ** BigInt(DIGITS_MAX)
const EXACT_DIGITS_MAX = 15 // as a double
const ZERO = 48

/** Returns a bigint beyond ±(2^53-1), null if the text is not a whole number. From 10^20 on the value is not exact. */
export function wholeNumber(text: string): number | bigint | null {
  DECIMAL.lastIndex = 0
  const parts = DECIMAL.exec(text)
  if (parts === null || parts[0].length !== text.length) return null
  const [, sign, whole, decimals = '', exponent = '0'] = parts
  const digits = (whole + decimals).replace(/^0+/, '')
  if (digits === '') return 0 // also -0, as the reference reads it
  let significantCount = digits.length
  while (digits.charCodeAt(significantCount - 1) === ZERO) significantCount-- // /0+$/ would take quadratic time
  const significant = digits.slice(0, significantCount)
  const zeros = Number(exponent) - decimals.length + digits.length - significantCount
  if (zeros < 0) return null
  if (significantCount + zeros > DIGITS_MAX) return sign === '' ? TOO_BIG : -TOO_BIG
  const written = sign + significant + '0'.repeat(zeros)
  if (written.length <= EXACT_DIGITS_MAX) return Number(written)
  const value = BigInt(written)
  const number = Number(value)
  return Number.isSafeInteger(number) ? number : value
}
