/** The JSON mapping of responses: spec 6.4. */
import { describe, expect, test } from 'vitest'
import { responseToJson } from '../../proto/json-response.ts'
import type { JsonObject, RateLimitResponse } from '../../proto/ratelimit.ts'

describe('6.4: responses', () => {
  const none: RateLimitResponse = {
    overallCode: 1,
    statuses: [],
    responseHeadersToAdd: [],
    dynamicMetadata: null,
  }
  const minute = (requestsPerUnit: number) => ({ name: '', requestsPerUnit, unit: 2 as const })

  test('6.4: the example of the spec', () => {
    const response: RateLimitResponse = {
      overallCode: 2,
      statuses: [
        { code: 2, currentLimit: minute(1), limitRemaining: 0, resetSec: 37 },
        { code: 1, currentLimit: minute(2), limitRemaining: 1, resetSec: 37 },
      ],
      responseHeadersToAdd: [],
      dynamicMetadata: null,
    }
    expect(responseToJson(response)).toBe(
      '{"overallCode":"OVER_LIMIT","statuses":[' +
        '{"code":"OVER_LIMIT","currentLimit":{"requestsPerUnit":1,"unit":"MINUTE"},"durationUntilReset":"37s"},' +
        '{"code":"OK","currentLimit":{"requestsPerUnit":2,"unit":"MINUTE"},"limitRemaining":1,"durationUntilReset":"37s"}]}',
    )
  })

  // biome-ignore format: the columns are the specification
  const cases = [
    ['unlimited',       { code: 1, currentLimit: null, limitRemaining: 4294967295, resetSec: 0 }, '{"code":"OK","limitRemaining":4294967295}'],
    ['only a code',     { code: 1, currentLimit: null, limitRemaining: 0, resetSec: 0 },          '{"code":"OK"}'],
    ['nothing',         { code: 0, currentLimit: null, limitRemaining: 0, resetSec: 0 },          '{}'],
    ['a limit of 0',    { code: 2, currentLimit: { name: '', requestsPerUnit: 0, unit: 7 }, limitRemaining: 0, resetSec: 5 },
      '{"code":"OVER_LIMIT","currentLimit":{"unit":"WEEK"},"durationUntilReset":"5s"}'],
    ['a named limit',   { code: 1, currentLimit: { name: 'a"<b', requestsPerUnit: 1, unit: 1 }, limitRemaining: 0, resetSec: 1 },
      '{"code":"OK","currentLimit":{"name":"a\\"<b","requestsPerUnit":1,"unit":"SECOND"},"durationUntilReset":"1s"}'],
    ['numbers without a name', { code: 9 as never, currentLimit: { name: '', requestsPerUnit: 1, unit: 8 as never }, limitRemaining: 0, resetSec: 1 },
      '{"code":9,"currentLimit":{"requestsPerUnit":1,"unit":8},"durationUntilReset":"1s"}'],
  ] as const
  for (const [name, status, text] of cases) {
    test(`6.4: status: ${name}`, () =>
      expect(responseToJson({ ...none, statuses: [status] })).toBe(
        `{"overallCode":"OK","statuses":[${text}]}`,
      ))
  }

  test('6.4: headers and empty lists', () => {
    expect(responseToJson(none)).toBe('{"overallCode":"OK"}')
    expect(responseToJson({ ...none, responseHeadersToAdd: [{ key: 'RateLimit-Limit', value: '5' }] })).toBe(
      '{"overallCode":"OK","responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"5"}]}',
    )
  })

  test('6.4: order of fields', () => {
    const text = responseToJson({
      dynamicMetadata: {},
      responseHeadersToAdd: [{ value: 'v', key: 'k' }],
      statuses: [
        { resetSec: 1, limitRemaining: 2, currentLimit: { unit: 1, requestsPerUnit: 3, name: 'n' }, code: 1 },
      ],
      overallCode: 1,
    })
    expect(text).toBe(
      '{"overallCode":"OK","statuses":[{"code":"OK","currentLimit":{"name":"n","requestsPerUnit":3,"unit":"SECOND"},' +
        '"limitRemaining":2,"durationUntilReset":"1s"}],"responseHeadersToAdd":[{"key":"k","value":"v"}],"dynamicMetadata":{}}',
    )
  })

  // biome-ignore format: the columns are the specification
  const structs = [
    ['keys are sorted, at every level', { b: { z: 1, a: 2 }, a: [], '7': null, '': true }, '{"":true,"7":null,"a":[],"b":{"a":2,"z":1}}'],
    ['nothing is left out',             { a: 0, b: '', c: false, d: null, e: {}, f: [] },  '{"a":0,"b":"","c":false,"d":null,"e":{},"f":[]}'],
    ['numbers are as short as can be',  { a: [1, 1.5, 0.1, 1e21, 1e-7, 100, 4294967295, -0, 2 ** 53] },
      '{"a":[1,1.5,0.1,1e+21,1e-7,100,4294967295,-0,9007199254740992]}'],
    ['no escaping for HTML',            { '<a>': '&\u2028"\n\u0001é😀' },                  '{"<a>":"&\u2028\\"\\n\\u0001é😀"}'],
    ['half a surrogate pair',           { a: '\ud800' },                                   '{"a":"\ufffd"}'],
  ] as const satisfies [string, JsonObject, string][]
  for (const [name, dynamicMetadata, text] of structs) {
    test(`6.4: dynamic metadata: ${name}`, () =>
      expect(responseToJson({ ...none, dynamicMetadata } as RateLimitResponse)).toBe(
        `{"overallCode":"OK","dynamicMetadata":${text}}`,
      ))
  }

  test('6.4: __proto__ is an ordinary key', () => {
    const dynamicMetadata = JSON.parse('{"__proto__":{"a":1}}')
    expect(responseToJson({ ...none, dynamicMetadata })).toContain('"dynamicMetadata":{"__proto__":{"a":1}}')
  })

  for (const number of [Number.NaN, Number.POSITIVE_INFINITY]) {
    test(`6.2: ${number} cannot be written`, () =>
      expect(() => responseToJson({ ...none, dynamicMetadata: { a: [number] } })).toThrow(
        `dynamic metadata holds ${number}, which JSON cannot represent`,
      ))
  }
})
