import { expect, test } from 'vitest'
import { quote, responseToText } from '../../proto/text.ts'

test('11.4: the example of the spec', () => {
  const currentLimit = { name: '', requestsPerUnit: 5, unit: 1 } as const
  const statuses = [{ code: 1, currentLimit, limitRemaining: 4, resetSec: 1 } as const]
  expect(responseToText({ overallCode: 1, statuses, responseHeadersToAdd: [] })).toBe(
    'overall_code:OK statuses:{code:OK current_limit:{requests_per_unit:5 unit:SECOND} ' +
      'limit_remaining:4 duration_until_reset:{seconds:1}}',
  )
})

test('names, headers, empty statuses and numbers without a name', () => {
  const currentLimit = { name: 'per "user"', requestsPerUnit: 0, unit: 9 as never }
  const statuses = [
    { code: 2, currentLimit, limitRemaining: 0, resetSec: 0 } as const,
    { code: 0, currentLimit: null, limitRemaining: 0, resetSec: 0 } as const,
  ]
  const responseHeadersToAdd = [{ key: 'RateLimit-Limit', value: '' }]
  expect(responseToText({ overallCode: 2, statuses, responseHeadersToAdd })).toBe(
    'overall_code:OVER_LIMIT statuses:{code:OVER_LIMIT current_limit:{name:"per \\"user\\"" unit:9}} statuses:{} ' +
      'response_headers_to_add:{key:"RateLimit-Limit"}',
  )
})

// biome-ignore format: the columns are the specification
const quoted = [
  ['é "x" \\', '"é \\"x\\" \\\\"'],
  ['\n\t\x01', '"\\n\\t\\x01"'],
  ['\x7f',     '"\\x7f"'],
  ['\\u0041',  '"\\\\u0041"'], // a backslash that was typed stays one
] as const
for (const [text, shown] of quoted) test(`quote ${shown}`, () => expect(quote(text)).toBe(shown))
