/** The JSON mapping of requests: spec 6.3 and the table of A.6. */
import { describe, expect, test } from 'vitest'
import { DESCRIPTORS_MAX, ENTRIES_MAX } from '../../proto/bounds.ts'
import { requestFromJson } from '../../proto/json.ts'

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
    ['',                               'expected an object, got the end of the text'],
    ['null',                           'expected an object, got null'],
    ['[]',                             'expected an object, got a list'],
    ['"d"',                            'expected an object, got "d"'],
    ['{"foo":1}',                      'unknown field "foo"'],
    ['{"Domain":"d"}',                 'unknown field "Domain"'],
    ['{"__proto__":1}',                'unknown field "__proto__"'],
    ['{"toString":1}',                 'unknown field "toString"'],
    ['{"":1}',                         'unknown field ""'],
    ['{"dom":1}',                      'unknown field "dom"'],
    ['{"domains":1}',                  'unknown field "domains"'],
    ['{"domain":1}',                   'domain: expected a string, got 1'],
    ['{"domain":"d",}',                'domain: expected a field at character 15, got "}"'],
    ['{,"domain":"d"}',                'expected a field at character 2, got ","'],
    ['{"domain":"d" "hitsAddend":1}',  'domain: expected "," or "}" at character 15, got "\\""'],
    ['{"domain" "d"}',                 'domain: expected ":" at character 11, got "\\""'],
    ['{"domain":}',                    'domain: expected a string, got "}"'],
    ['{"domain":"d" /* comment */}',   'domain: expected "," or "}" at character 15, got "/"'],
    ["{'domain':'d'}",                 'expected a field at character 2, got "\'"'],
    ['{domain:"d"}',                   'expected a field at character 2, got "d"'],
    ['\ufeff{"domain":"d"}',           'expected an object, got "\ufeff"'], // byte order mark
    ['\u00a0{}',                       'expected an object, got "\u00a0"'], // white space elsewhere, but not in JSON
    ['\f{}',                           'expected an object, got "\\f"'],
    ['{"domain":"d"} {}',              'expected the end of the text at character 16, got "{"'],
    ['{"domain":"d"}x',                'expected the end of the text at character 15, got "x"'],
    ['{"domain":"d"}\0',               'expected the end of the text at character 15, got "\\u0000"'],
    ['{"domain":"d"',                  'domain: expected "," or "}" at character 14, got the end of the text'],
    ['{"domain":"d',                   'domain: expected the end of the string at character 13, got the end of the text'],
    ['{"domain":"d\\"}',               'domain: expected the end of the string at character 16, got the end of the text'],
    ['{"domain":"a\nb"}',              'domain: expected the end of the string at character 13, got "\\n"'],
    ['{"domain":"\\"\x1f"}',            'domain: expected the end of the string at character 14, got "\\u001f"'],
    ['{"domain":"\\x41"}',             'domain: the string at character 11 has an invalid escape sequence'],
    ['{"domain":"\\u12"}',             'domain: the string at character 11 has an invalid escape sequence'],
    ['{"domain":"\\',                  'domain: expected the end of the string at character 13, got the end of the text'],
    ['{"domain":nul}',                 'domain: expected a string, got nul'],
    ['{"domain":nullx}',               'domain: expected "," or "}" at character 15, got "x"'],
    ['{"domain":undefined}',           'domain: expected a string, got undefined'],
  ] as const
  for (const [body, message] of cases) {
    test(`${JSON.stringify(body)}: ${message}`, () => expect(problem(body)).toBe(message))
  }

  test('{} and {"domain":"d"} can be read; the engine refuses a request without descriptors', () => {
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
    ['4294967295', 4_294_967_295], ['"4294967295"', 4_294_967_295], ['42949672.95e2', 4_294_967_295],
    ['100000000000000000000e-18', 100], ['0.0', 0], ['0e5', 0], [' 7 ', 7],
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
    ['1e999',      'expected at most 4294967295, got 1e999'],
    ['1.00000000000000000001', 'expected a whole number, got 1.00000000000000000001'], // 1, as a double
    ['01',         'expected "," or "}" at character 16, got "1"'],
    ['1.',         'expected "," or "}" at character 16, got "."'],
    ['1e',         'expected "," or "}" at character 16, got "e"'],
    ['+1',         'expected a whole number, got +1'],
    ['.5',         'expected a whole number, got .5'],
    ['-',          'expected a whole number, got -'],
    ['NaN',        'expected a whole number, got NaN'],
    ['0x7',        'expected "," or "}" at character 16, got "x"'],
    ['1_0',        'expected "," or "}" at character 16, got "_"'],
    ['١',          'expected a whole number, got "١"'], // a digit, but not here
    ['""',         'expected a whole number, got ""'],
    ['" 7"',       'expected a whole number, got " 7"'],
    ['"7 "',       'expected a whole number, got "7 "'],
    ['"0x7"',      'expected a whole number, got "0x7"'],
    ['"07"',       'expected a whole number, got "07"'],
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
    ['123456789012345', 123_456_789_012_345], ['1234567890123456', 1_234_567_890_123_456],
    ['"9007199254740992"', 2n ** 53n], ['9007199254740993', 2n ** 53n + 1n], ['9223372036854775807', 2n ** 63n - 1n],
    ['"18446744073709551615"', 2n ** 64n - 1n], ['18446744073709551615', 2n ** 64n - 1n],
    ['1844674407370955161.5e1', 2n ** 64n - 1n],
  ] as const
  for (const [value, hits] of accepted) {
    test(`${value} is ${hits}`, () => {
      expect(readDescriptor(`"hitsAddend":${value}`).hitsAddend).toBe(hits)
      expect(readDescriptor(`"hits_addend":${value}`).hitsAddend).toBe(hits)
    })
  }
  test('{"value":3} is refused: JSON has the number without its wrapper', () =>
    expect(problem(descriptor('"hitsAddend":{"value":3}'))).toBe(
      'descriptors[0].hitsAddend: expected a whole number, got an object',
    ))
  for (const value of ['18446744073709551616', '"99999999999999999999"', '1e20', '1e400']) {
    test(`${value} is refused: beyond 64 bits`, () =>
      expect(problem(descriptor(`"hitsAddend":${value}`))).toBe(
        `descriptors[0].hitsAddend: expected at most 18446744073709551615, got ${value}`,
      ))
  }
})

describe('6.3, A.6: limits', () => {
  // biome-ignore format: the columns are the specification
  const accepted = [
    ['{"requestsPerUnit":5,"unit":"HOUR"}',   { requestsPerUnit: 5, unit: 3 }],
    ['{"requests_per_unit":"5","unit":3}',    { requestsPerUnit: 5, unit: 3 }],
    ['{"unit":3.0}',                          { requestsPerUnit: 0, unit: 3 }],
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
    ['{"unit":-2147483649}',     'limit.unit: expected a unit, got -2147483649'],
    ['{"unit":1e400}',           'limit.unit: expected a unit, got 1e400'],
    ['{"unit":[]}',              'limit.unit: expected a unit, got a list'],
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
    ['{"domain":"a","domain":"a"}',                             'domain: given twice'],
    ['{"domain":null,"d\\u006fmain":null}',                     'domain: given twice'],
    ['{"descriptors":[],"descriptors":[]}',                     'descriptors: given twice'],
    ['{"descriptors":[{"entries":[{"key":"k","value":"v","key":"k"}]}]}', 'descriptors[0].entries[0].key: given twice'],
    ['{"descriptors":[{"limit":{},"limit":{}}]}',               'descriptors[0].limit: given twice'],
    ['{"hitsAddend":1,"hitsAddend":1}',                         'hitsAddend: given twice (hits_addend is the same as hitsAddend)'],
    ['{"hitsAddend":1,"hits_addend":1}',                        'hits_addend: given twice (hits_addend is the same as hitsAddend)'],
    ['{"descriptors":[{"hits_addend":1,"hitsAddend":null}]}',   'descriptors[0].hitsAddend: given twice (hits_addend is the same as hitsAddend)'],
    ['{"descriptors":[{"isNegativeHits":true,"is_negative_hits":true}]}',
      'descriptors[0].is_negative_hits: given twice (is_negative_hits is the same as isNegativeHits)'],
    ['{"descriptors":[{"limit":{"requestsPerUnit":1,"requests_per_unit":1}}]}',
      'descriptors[0].limit.requests_per_unit: given twice (requests_per_unit is the same as requestsPerUnit)'],
    ['{"descriptors":[{},]}',                                   'descriptors[1]: expected an object, got "]"'],
    ['{"descriptors":[{} {}]}',                                 'descriptors[0]: expected "," or "]" at character 20, got "{"'],
    ['{"descriptors":[{}',                                      'descriptors[0]: expected "," or "]" at character 19, got the end of the text'],
    ['{"descriptors":[,]}',                                     'descriptors[0]: expected an object, got ","'],
    ['{"descriptors":[[]]}',                                    'descriptors[0]: expected an object, got a list'],
    ['{"domain":"\\ud800"}',                                    'domain: the text has an unpaired surrogate'],
    ['{"descriptors":[{"entries":[{"key":"\\udc00x"}]}]}',      'descriptors[0].entries[0].key: the text has an unpaired surrogate'],
    ['{"\\ud800":1}',                                           'the text has an unpaired surrogate'],
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

  test('long text is shortened in the error', () => {
    expect(problem(`{"${'x'.repeat(5_000)}":1}`).length).toBeLessThan(100)
    expect(problem(`{"hitsAddend":"${'x'.repeat(5_000)}"}`).length).toBeLessThan(100)
  })

  test('escapes in text and in names', () => {
    const text = String.raw`{"dom\u0061in":"\"\\\/\b\f\n\r\t\u00e9é\u0000","hits\u005faddend":3}`
    expect(requestFromJson(text)).toEqual({ domain: '"\\/\b\f\n\r\téé\0', descriptors: [], hitsAddend: 3 })
  })

  test('a million levels are refused at the first one', () => {
    for (const open of ['[', '{"descriptors":', '{"domain":']) {
      expect(problem(`{"domain":${open.repeat(1_000_000)}`)).toMatch(
        /^domain: expected a string, got (a list|an obj)/,
      )
    }
    expect(problem(`{"foo":${'['.repeat(1_000_000)}`)).toBe('unknown field "foo"')
  })
})

describe('6.3: maxima of one request', () => {
  const many = (count: number, element: string) => Array(count).fill(element).join()

  test('descriptors', () => {
    const text = (count: number) => `{"domain":"d","descriptors":[${many(count, '{}')}]}`
    expect(requestFromJson(text(DESCRIPTORS_MAX)).descriptors.length).toBe(DESCRIPTORS_MAX)
    expect(problem(text(DESCRIPTORS_MAX + 1))).toBe(
      'descriptors[4096]: a request must not have more than 4096 descriptors',
    )
  })

  test('entries, of all descriptors together', () => {
    const list = (count: number) => `{"entries":[${many(count, '{}')}]}`
    const text = (...counts: number[]) => `{"descriptors":[${counts.map(list).join()}]}`
    expect(requestFromJson(text(ENTRIES_MAX - 1, 1)).descriptors[0].entries.length).toBe(ENTRIES_MAX - 1)
    expect(problem(text(ENTRIES_MAX, 1))).toBe(
      'descriptors[1].entries[0]: a request must not have more than 65536 entries in all its descriptors',
    )
    expect(requestFromJson(text(1)).descriptors.length).toBe(1) // each request starts at 0
  })
})
