import { expect, test } from 'vitest'
import { quote, requestToText, responseToText } from '../../proto/text.ts'

test('11.4: the example of the spec', () => {
  const currentLimit = { name: '', requestsPerUnit: 5, unit: 1 } as const
  const statuses = [{ code: 1, currentLimit, limitRemaining: 4, resetSec: 1 } as const]
  expect(responseToText({ overallCode: 1, statuses, responseHeadersToAdd: [], dynamicMetadata: null })).toBe(
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
  expect(responseToText({ overallCode: 2, statuses, responseHeadersToAdd, dynamicMetadata: null })).toBe(
    'overall_code:OVER_LIMIT statuses:{code:OVER_LIMIT current_limit:{name:"per \\"user\\"" unit:9}} statuses:{} ' +
      'response_headers_to_add:{key:"RateLimit-Limit"}',
  )
})

test('11.3: a request; an addend of 0 is printed, an absent one is not', () => {
  const entries = [
    { key: 'user', value: 'a"b' },
    { key: 'path', value: '' },
  ]
  const descriptors = [
    { entries, limit: { requestsPerUnit: 5, unit: 2 }, hitsAddend: 3 },
    { entries: [], limit: null, hitsAddend: 0 },
    { entries: [], limit: null, hitsAddend: null },
  ]
  expect(requestToText({ domain: 'shop', descriptors, hitsAddend: 7 })).toBe(
    'domain:"shop" descriptors:{entries:{key:"user" value:"a\\"b"} entries:{key:"path"} ' +
      'limit:{requests_per_unit:5 unit:MINUTE} hits_addend:{value:3}} descriptors:{hits_addend:{}} descriptors:{} hits_addend:7',
  )
  expect(requestToText({ domain: '', descriptors: [], hitsAddend: 0 })).toBe('')
})

test('11.4: dynamic metadata, keys sorted', () => {
  const dynamicMetadata = {
    hitsAddend: 3,
    domain: 'shop',
    empty: {},
    descriptors: [{ entries: ['user=7', 'plan="x"'] }, null, -0.5, true, 1e21, Number.POSITIVE_INFINITY],
  }
  expect(responseToText({ overallCode: 1, statuses: [], responseHeadersToAdd: [], dynamicMetadata })).toBe(
    'overall_code:OK dynamic_metadata:{' +
      'fields:{key:"descriptors" value:{list_value:{' +
      'values:{struct_value:{fields:{key:"entries" value:{list_value:{' +
      'values:{string_value:"user=7"} values:{string_value:"plan=\\"x\\""}}}}}} ' +
      'values:{null_value:NULL_VALUE} values:{number_value:-0.5} values:{bool_value:true} ' +
      'values:{number_value:1e+21} values:{number_value:inf}}}} ' +
      'fields:{key:"domain" value:{string_value:"shop"}} ' +
      'fields:{key:"empty" value:{struct_value:{}}} ' +
      'fields:{key:"hitsAddend" value:{number_value:3}}}',
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
