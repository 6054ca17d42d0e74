/** The JSON mapping of requests and responses: spec 6.3, 6.4 and the table of A.6. */
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import { requestFromJson, responseToJson } from '../../proto/json.ts'
import type { RateLimitResponse } from '../../proto/ratelimit.ts'

const problem = (text: string): string => {
  try {
    requestFromJson(text)
  } catch (error) {
    return (error as Error).message
  }
  return 'accepted'
}
const descriptor = (fields: string) => `{"domain":"d","descriptors":[{${fields}}]}`
const readDescriptor = (fields: string) => requestFromJson(descriptor(fields)).descriptors[0]

describe('A.6: whole bodies that are refused', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['',                               /^Unexpected end/],
    ['null',                           /^expected an object, got null$/],
    ['[]',                             /^expected an object, got a list$/],
    ['{"foo":1}',                      /^unknown field "foo"$/],
    ['{"Domain":"d"}',                 /^unknown field "Domain"$/],
    ['{"__proto__":1}',                /^unknown field "__proto__"$/],
    ['{"domain":1}',                   /^domain: expected a string, got 1$/],
    ['{"domain":"d",}',                /JSON/],
    ['{"domain":"d" /* comment */}',   /JSON/],
    ["{'domain':'d'}",                 /JSON/],
    ['\ufeff{"domain":"d"}',           /JSON/], // byte order mark
    ['{"domain":"d"} {}',              /JSON/],
    ['{"domain":"d"}x',                /JSON/],
  ] as const
  for (const [body, message] of cases) {
    test(`${JSON.stringify(body)}: ${message}`, () => expect(problem(body)).toMatch(message))
  }

  test('{} and {"domain":"d"} can be read; that they ask nothing is for the engine to say', () => {
    expect(requestFromJson('{}')).toEqual({ domain: '', descriptors: [], hitsAddend: 0 })
    expect(requestFromJson('{"domain":"d"}')).toEqual({ domain: 'd', descriptors: [], hitsAddend: 0 })
    expect(requestFromJson('\n\t {"domain":"d","descriptors":[{}]} \r\n').descriptors).toEqual([
      { entries: [], limit: null, hitsAddend: null },
    ])
  })
})

describe('6.3, A.6: hits of the request, 32 bits', () => {
  // biome-ignore format: the columns are the specification
  const accepted = [
    ['1', 1], ['1.0', 1], ['1e2', 100], ['"7"', 7], ['"1e2"', 100], ['"1.0"', 1], ['0', 0], ['null', 0],
    ['4294967295', 4_294_967_295],
  ] as const
  for (const [value, hits] of accepted) {
    test(`${value} is ${hits}`, () => {
      expect(requestFromJson(`{"hits_addend":${value}}`).hitsAddend).toBe(hits)
      expect(requestFromJson(`{"hitsAddend":${value}}`).hitsAddend).toBe(hits)
    })
  }

  // biome-ignore format: the columns are the specification
  const refused = [
    ['1.5',        'expected a whole number, got 1.5'],
    ['-1',         'expected a number that is not negative, got -1'],
    ['4294967296', 'expected at most 4294967295, got 4294967296'],
    ['1e999',      'expected a whole number, got Infinity'],
    ['""',         'expected a whole number, got ""'],
    ['" 7"',       'expected a whole number, got " 7"'],
    ['"7 "',       'expected a whole number, got "7 "'],
    ['"0x7"',      'expected a whole number, got "0x7"'],
    ['"07"',       'expected a whole number, got "07"'],
    ['"-0"',       'expected a number that is not negative, got "-0"'],
    ['true',       'expected a whole number, got true'],
    ['[1]',        'expected a whole number, got a list'],
    ['{"value":3}', 'expected a whole number, got an object'],
  ] as const
  for (const [value, message] of refused) {
    test(`${value}: ${message}`, () => {
      expect(problem(`{"hitsAddend":${value}}`)).toBe(`hitsAddend: ${message}`)
    })
  }
})

describe('6.3, A.6: hits of a descriptor, a wrapped 64-bit number', () => {
  // biome-ignore format: the columns are the specification
  const accepted = [
    ['3', 3], ['"3"', 3], ['0', 0], ['null', null], ['"9007199254740991"', Number.MAX_SAFE_INTEGER],
    ['"9007199254740992"', Number.POSITIVE_INFINITY], ['"18446744073709551615"', Number.POSITIVE_INFINITY],
    ['18446744073709551615', Number.POSITIVE_INFINITY],
  ] as const
  for (const [value, hits] of accepted) {
    test(`${value} is ${hits}`, () => {
      expect(readDescriptor(`"hitsAddend":${value}`).hitsAddend).toBe(hits)
      expect(readDescriptor(`"hits_addend":${value}`).hitsAddend).toBe(hits)
    })
  }
  test('{"value":3} is refused: the wrapper is written bare', () =>
    expect(problem(descriptor('"hitsAddend":{"value":3}'))).toBe(
      'descriptors[0].hitsAddend: expected a whole number, got an object',
    ))
  test('beyond 64 bits is refused', () =>
    expect(problem(descriptor('"hitsAddend":"99999999999999999999"'))).toBe(
      'descriptors[0].hitsAddend: expected at most 2^64-1, got "99999999999999999999"',
    ))
})

describe('6.3, A.6: limits', () => {
  // biome-ignore format: the columns are the specification
  const accepted = [
    ['{"requestsPerUnit":5,"unit":"HOUR"}',   { requestsPerUnit: 5, unit: 3 }],
    ['{"requests_per_unit":"5","unit":3}',    { requestsPerUnit: 5, unit: 3 }],
    ['{"unit":7}',                            { requestsPerUnit: 0, unit: 7 }],
    ['{"unit":"WEEK"}',                       { requestsPerUnit: 0, unit: 7 }],
    ['{"unit":99}',                           { requestsPerUnit: 0, unit: 99 }],
    ['{"unit":-2147483648}',                  { requestsPerUnit: 0, unit: -2147483648 }],
    ['{"unit":null,"requestsPerUnit":null}',  { requestsPerUnit: 0, unit: 0 }],
    ['{}',                                    { requestsPerUnit: 0, unit: 0 }],
    ['null',                                  null],
  ] as const
  for (const [value, limit] of accepted) {
    test(value, () => expect(readDescriptor(`"limit":${value}`).limit).toEqual(limit))
  }

  // biome-ignore format: the columns are the specification
  const refused = [
    ['{"unit":"hour"}',          'limit.unit: expected one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK, got "hour"'],
    ['{"unit":"3"}',             'limit.unit: expected one of UNKNOWN, SECOND, MINUTE, HOUR, DAY, MONTH, YEAR, WEEK, got "3"'],
    ['{"unit":1.5}',             'limit.unit: expected a unit, got 1.5'],
    ['{"unit":2147483648}',      'limit.unit: expected a unit, got 2147483648'],
    ['{"unit":true}',            'limit.unit: expected a unit, got true'],
    ['{"requestsPerUnit":-1}',   'limit.requestsPerUnit: expected a number that is not negative, got -1'],
    ['{"requests":1}',           'limit: unknown field "requests"'],
    ['[]',                       'limit: expected an object, got a list'],
    ['5',                        'limit: expected an object, got 5'],
  ] as const
  for (const [value, message] of refused) {
    test(`${value} is refused`, () =>
      expect(problem(descriptor(`"limit":${value}`))).toBe(`descriptors[0].${message}`))
  }
})

describe('6.3, A.6: descriptors and entries', () => {
  test('a whole request', () => {
    const text = '{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"7"},{"key":"plan"}]}]}'
    expect(requestFromJson(text)).toEqual({
      domain: 'shop',
      descriptors: [
        {
          entries: [
            { key: 'user', value: '7' },
            { key: 'plan', value: '' },
          ],
          limit: null,
          hitsAddend: null,
        },
      ],
      hitsAddend: 0,
    })
  })

  // biome-ignore format: the columns are the specification
  const refused = [
    ['{"descriptors":[null]}',                                  'descriptors[0]: expected an object, got null'],
    ['{"descriptors":{}}',                                      'descriptors: expected a list, got an object'],
    ['{"descriptors":[{"entries":[null]}]}',                    'descriptors[0].entries[0]: expected an object, got null'],
    ['{"descriptors":[{},{"entries":[{},{"value":5}]}]}',       'descriptors[1].entries[1].value: expected a string, got 5'],
    ['{"descriptors":[{"entries":[{"key":"k","nope":1}]}]}',    'descriptors[0].entries[0]: unknown field "nope"'],
    ['{"descriptors":[{"isNegativeHits":1}]}',                  'descriptors[0].isNegativeHits: expected true or false, got 1'],
    ['{"hitsAddend":1,"hits_addend":1}',                        'hitsAddend: given twice, also as hits_addend'],
    ['{"descriptors":[{"hits_addend":1,"hitsAddend":null}]}',   'descriptors[0].hits_addend: given twice, also as hitsAddend'],
    ['{"descriptors":[{"limit":{"requestsPerUnit":1,"requests_per_unit":1}}]}',
      'descriptors[0].limit.requestsPerUnit: given twice, also as requests_per_unit'],
    ['{"domain":"\\ud800"}',                                    'domain: half of a surrogate pair is no text'],
    ['{"descriptors":[{"entries":[{"key":"\\udc00x"}]}]}',      'descriptors[0].entries[0].key: half of a surrogate pair is no text'],
  ] as const
  for (const [text, message] of refused) test(message, () => expect(problem(text)).toBe(message))

  test('null is the same as not set', () => {
    expect(requestFromJson('{"domain":null,"descriptors":null}')).toEqual(requestFromJson('{}'))
    expect(readDescriptor('"entries":null')).toEqual(readDescriptor(''))
    expect(readDescriptor('"entries":[{"key":null,"value":null}]').entries).toEqual([{ key: '', value: '' }])
  })

  test('is_negative_hits is known and ignored', () =>
    expect(readDescriptor('"is_negative_hits":true')).toEqual(readDescriptor('')))

  test('a pair of surrogates is one character', () =>
    expect(requestFromJson('{"domain":"\\ud83d\\ude00"}').domain).toBe('😀'))

  test('long caller text is cut in the message', () => {
    expect(problem(`{"${'x'.repeat(5_000)}":1}`).length).toBeLessThan(100)
    expect(problem(`{"hitsAddend":"${'x'.repeat(5_000)}"}`).length).toBeLessThan(100)
  })

  test('ten thousand levels deep are refused without harm', () =>
    expect(problem(`{"domain":${'['.repeat(10_000)}${']'.repeat(10_000)}}`)).toBe(
      'domain: expected a string, got a list',
    ))

  test('any JSON is read or refused with a message', () => {
    fc.assert(fc.property(fc.json(), (text) => typeof problem(text) === 'string'))
  })
})

describe('6.4: responses', () => {
  const none: RateLimitResponse = { overallCode: 1, statuses: [], responseHeadersToAdd: [] }
  const minute = (requestsPerUnit: number) => ({ name: '', requestsPerUnit, unit: 2 as const })

  test('the example of the spec', () => {
    const response: RateLimitResponse = {
      overallCode: 2,
      statuses: [
        { code: 2, currentLimit: minute(1), limitRemaining: 0, resetSec: 37 },
        { code: 1, currentLimit: minute(2), limitRemaining: 1, resetSec: 37 },
      ],
      responseHeadersToAdd: [],
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
    test(`status: ${name}`, () =>
      expect(responseToJson({ ...none, statuses: [status] })).toBe(
        `{"overallCode":"OK","statuses":[${text}]}`,
      ))
  }

  test('headers, and lists that are empty', () => {
    expect(responseToJson(none)).toBe('{"overallCode":"OK"}')
    expect(responseToJson({ ...none, responseHeadersToAdd: [{ key: 'RateLimit-Limit', value: '5' }] })).toBe(
      '{"overallCode":"OK","responseHeadersToAdd":[{"key":"RateLimit-Limit","value":"5"}]}',
    )
  })
})
