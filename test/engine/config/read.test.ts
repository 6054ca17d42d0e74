import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import type { NodeDraft } from '../../../engine/config/draft.ts'
import { ConfigError } from '../../../engine/config/error.ts'
import { readDraft } from '../../../engine/config/read.ts'
import { size } from '../../helpers/size.ts'

function read(yaml: string | Uint8Array) {
  return readDraft('f.yaml', typeof yaml === 'string' ? Buffer.from(yaml) : yaml)
}

function getReadError(yaml: string | Uint8Array): string {
  try {
    read(yaml)
  } catch (error) {
    return (error as Error).message
  }
  return 'no error'
}

/** The first node of a file with these lines in it. */
function readNode(...lines: string[]): NodeDraft {
  return read(['domain: d', 'descriptors:', '  - key: k', ...lines.map((line) => `    ${line}`)].join('\n'))
    .nodes[0]
}

function nodeError(...lines: string[]): string {
  return getReadError(
    ['domain: d', 'descriptors:', '  - key: k', ...lines.map((line) => `    ${line}`)].join('\n'),
  )
}

const PARSE = 'f.yaml: error loading config file: yaml: '
const UNMARSHAL = `${PARSE}unmarshal errors:\n  `

test('1.1 every field of a descriptor and of a limit', () => {
  const node = readNode(
    'value: v',
    'rate_limit:',
    '  unit: Minute',
    '  requests_per_unit: 7',
    '  unlimited: false',
    '  name: n',
    '  replaces: [{name: a}, {name: b}]',
    'shadow_mode: true',
    'quota_mode: yes',
    'detailed_metric: on',
    'value_to_metric: y',
    'share_threshold: TRUE',
    'metadata: {a: {b: [1, x]}}',
    'descriptors:',
    '  - key: child',
  )
  const limit = { unit: 'Minute', requestsPerUnit: 7, isUnlimited: false, name: 'n', replaces: ['a', 'b'] }
  expect(node).toMatchObject({ key: 'k', value: 'v', limit, isShadow: true, isQuota: true, line: 3 })
  expect(node).toMatchObject({ hasDetailedMetric: true, hasValueToMetric: true, hasShareThreshold: true })
  expect(node.metadata).toEqual({ a: { b: [1, 'x'] } })
  expect(node.nodes[0]).toMatchObject({ key: 'child', value: '', limit: null, nodes: [], line: 18 })
})

describe('1.3 values of text fields', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['15', '15'], ['0x1F', '0x1F'], ['010', '010'], ['1_000', '1_000'], ['yes', 'yes'], ['true', 'true'],
    ['2026-01-02', '2026-01-02'], ['12:30:45', '12:30:45'], ['10.0.0.1', '10.0.0.1'], ['-', null], ['+', '+'],
    ['null', ''], ['~', ''], ['', ''], ["''", ''], ["'null'", 'null'], ["'1.5'", '1.5'], ['"a\\tb"', 'a\tb'],
    ['!!binary aGk=', 'hi'], ['!!str 1.5', '1.5'], ['1e400', '1e400'], ['1.2.3', '1.2.3'], ['._5', '._5'],
    ['9223372036854775807', '9223372036854775807'], ['/api/*', '/api/*'], ['0x', '0x'], ["'*'", '*'],
  ] as const
  for (const [written, value] of cases) {
    if (value === null) continue
    test(`value: ${written} -> '${value}'`, () => expect(readNode(`value: ${written}`).value).toBe(value))
  }
  test('domain: 5', () => expect(read('domain: 5').domain).toBe('5'))
})

describe('1.3 scalars that are refused', () => {
  // biome-ignore format: one line is the table
  const cases = [
    '1.5', '.5', '1e3', '18446744073709551615', '9223372036854775808', '.inf', '-.INF', '.nan', '08', '1.', '1_0.5',
    '!!float 1', '36893488147419103232',
  ]
  for (const written of cases) {
    test(`value: ${written}`, () => {
      expect(nodeError(`value: ${written}`)).toBe('f.yaml: error checking config (line 4)')
    })
  }
  test('requests_per_unit: 1.0', () => {
    const text = nodeError('rate_limit: {unit: day, requests_per_unit: 1.0}')
    expect(text).toBe('f.yaml: error checking config (line 4)')
  })
})

describe('1.3 requests_per_unit', () => {
  const requests = (text: string) => `rate_limit: {unit: day, requests_per_unit: ${text}}`
  // biome-ignore format: the columns are the specification
  const cases = [
    ['5', 5], ['+5', 5], ['0x10', 16], ['010', 8], ['0b11', 3], ['0o17', 15], ['1_000', 1000], ['null', 0], ['0', 0],
    ['4294967295', 4_294_967_295], ['!!int "5"', 5],
  ] as const
  for (const [written, value] of cases) {
    test(`${written} -> ${value}`, () =>
      expect(readNode(requests(written)).limit?.requestsPerUnit).toBe(value))
  }
  // biome-ignore format: the columns are the specification
  const errors = [
    ["'5'",        '!!str `5`'],
    ['-1',         '!!int `-1`'],
    ['4294967296', '!!int `4294967296`'],
    ['true',       '!!bool `true`'],
    ['[]',         '!!seq'],
    ['{}',         '!!map'],
    ['aVeryLongText', '!!str `aVeryLo...`'],
  ] as const
  for (const [written, found] of errors) {
    test(`${written} is refused`, () => {
      expect(nodeError(requests(written))).toBe(`${UNMARSHAL}line 4: cannot unmarshal ${found} into uint32`)
    })
  }
  test('absent is 0', () => expect(readNode('rate_limit: {unit: day}').limit?.requestsPerUnit).toBe(0))
})

describe('1.3 booleans', () => {
  for (const written of ['true', 'True', 'TRUE', 'yes', 'y', 'on', 'Y', 'ON']) {
    test(written, () => expect(readNode(`shadow_mode: ${written}`).isShadow).toBe(true))
  }
  for (const written of ['false', 'no', 'n', 'off', 'Off', '~', '']) {
    test(`'${written}'`, () => expect(readNode(`shadow_mode: ${written}`).isShadow).toBe(false))
  }
  test("'true' in quotes is text", () => {
    expect(nodeError("shadow_mode: 'true'")).toBe(
      `${UNMARSHAL}line 4: cannot unmarshal !!str \`true\` into bool`,
    )
  })
  test('1 is a number', () => {
    expect(nodeError('shadow_mode: 1')).toBe(`${UNMARSHAL}line 4: cannot unmarshal !!int \`1\` into bool`)
  })
})

describe('1.3 keys', () => {
  test('an unknown key', () => {
    expect(nodeError('kee: x')).toBe("f.yaml: config error, unknown key 'kee' (line 4)")
    expect(getReadError('Domain: x')).toBe("f.yaml: config error, unknown key 'Domain' (line 1)")
    expect(getReadError('"1": x')).toBe("f.yaml: config error, unknown key '1' (line 1)")
  })
  test('a known key in the wrong place is ignored, but its value is checked', () => {
    expect(readNode('unit: day', 'requests_per_unit: x')).toMatchObject({ key: 'k', limit: null })
    expect(nodeError('unit: 1.5')).toBe('f.yaml: error checking config (line 4)')
  })
  test('of a key written twice the last counts, and only that one is checked', () => {
    expect(readNode('value: a', 'value: b').value).toBe('b')
    expect(readNode('value: 1.5', 'value: b').value).toBe('b')
    expect(nodeError('value: b', 'value: 1.5')).toBe('f.yaml: error checking config (line 5)')
    expect(readNode('descriptors: [{key: a}]', 'descriptors: [{key: b}]').nodes).toMatchObject([{ key: 'b' }])
    expect(nodeError('kee: 1', 'kee: 1')).toBe("f.yaml: config error, unknown key 'kee' (line 4)")
  })
  test('of a limit written twice, fields of the last replace those of the first', () => {
    const limit = readNode(
      'rate_limit: {unit: day, name: a}',
      'rate_limit: {requests_per_unit: 5, name: b}',
    ).limit
    expect(limit).toMatchObject({ unit: 'day', requestsPerUnit: 5, name: 'b' })
    expect(readNode('rate_limit: {unit: day}', 'rate_limit: ~').limit).toBeNull()
    const merged = readNode(
      'rate_limit: {unit: day, replaces: [{name: a}, {name: b}]}',
      'rate_limit: {replaces: [{name: c}]}',
    )
    expect(merged.limit?.replaces).toEqual(['c'])
  })
  test('metadata written twice has the keys of both; the last one takes precedence', () => {
    const { metadata } = readNode('metadata: {a: {x: 1}, b: 2}', 'metadata: {a: {z: 1}}')
    expect(metadata).toEqual({ a: { z: 1 }, b: 2 })
  })
  test('a list as a key', () => expect(getReadError('? [a]\n: b')).toBe(`${PARSE}invalid map key: [a]`))
})

describe('1.3 kinds that do not fit', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['foo',                        'line 1: cannot unmarshal !!str `foo` into map[interface {}]interface {}'],
    ['- a',                        'line 1: cannot unmarshal !!seq into map[interface {}]interface {}'],
    ['rate_limit: x',              'line 4: cannot unmarshal !!str `x` into config.YamlRateLimit'],
    ['rate_limit: [{unit: day}]',  'line 4: cannot unmarshal !!seq into config.YamlRateLimit'],
    ['descriptors: x',             'line 4: cannot unmarshal !!str `x` into []config.YamlDescriptor'],
    ['descriptors: {key: a}',      'line 4: cannot unmarshal !!map into []config.YamlDescriptor'],
    ['rate_limit: {replaces: x}',  'line 4: cannot unmarshal !!str `x` into []config.yamlReplaces'],
    ['rate_limit: {replaces: {name: x}}', 'line 4: cannot unmarshal !!map into []config.yamlReplaces'],
    ['metadata: x',                'line 4: cannot unmarshal !!str `x` into map[string]interface {}'],
    ['metadata: [a]',              'line 4: cannot unmarshal !!seq into map[string]interface {}'],
    ['value: []',                  'line 4: cannot unmarshal !!seq into string'],
    ['value: {}',                  'line 4: cannot unmarshal !!map into string'],
  ] as const
  for (const [yaml, text] of cases) {
    const isRoot = text.startsWith('line 1')
    test(yaml, () => expect(isRoot ? getReadError(yaml) : nodeError(yaml)).toBe(UNMARSHAL + text))
  }
  test('all warnings of a file are reported together', () => {
    const text = nodeError('value: []', 'shadow_mode: 1')
    expect(text).toBe(
      `${UNMARSHAL}line 4: cannot unmarshal !!seq into string\n  line 5: cannot unmarshal !!int \`1\` into bool`,
    )
  })
  test('null is no limit, an empty block is one', () => {
    expect(readNode('rate_limit:').limit).toBeNull()
    expect(readNode('rate_limit: {}').limit).toMatchObject({ unit: '', requestsPerUnit: 0 })
  })
})

describe('1.3 documents', () => {
  for (const yaml of ['', '# nothing\n', 'null', '~', '---\n']) {
    test(`${JSON.stringify(yaml)} is empty`, () =>
      expect(read(yaml)).toEqual({ file: 'f.yaml', domain: '', nodes: [] }))
  }
  test('only the first of several is read', () => {
    expect(read('domain: a\n---\ndomain: [\n').domain).toBe('a')
    expect(read('---\ndomain: a\n...\n@').domain).toBe('a')
  })
  test('byte order marks', () => {
    expect(read('\ufeffdomain: a').domain).toBe('a')
    expect(read(Buffer.from('\ufeffdomain: é', 'utf16le')).domain).toBe('é')
  })
  test('bytes that are not UTF-8', () => {
    expect(getReadError(Buffer.from('domain: \xff', 'latin1'))).toBe(`${PARSE}invalid leading UTF-8 octet`)
  })
  test('control characters', () => {
    expect(getReadError('domain: a\0')).toBe(`${PARSE}control characters are not allowed`)
    expect(getReadError('domain: a\x7f')).toBe(`${PARSE}control characters are not allowed`)
  })
  for (const yaml of [
    "domain: 'd",
    "'''",
    "domain: 'a''",
    'domain: "a\\"',
    'domain:\n\t- a',
    'domain: [',
    'a: b: c',
    '@',
    'domain: "\\q"',
  ]) {
    test(`${JSON.stringify(yaml)} does not parse`, () =>
      expect(getReadError(yaml)).toContain(`${PARSE}line `))
  }
})

test('1.3 quotes that end at the end of the file', () => {
  expect(read("domain: 'a'''").domain).toBe("a'")
  expect(read('domain: "a\\\\"').domain).toBe('a\\')
  expect(read("domain: ''").domain).toBe('')
})

describe('1.3 bytes and escapes', () => {
  test('bytes that are not UTF-8 differ from each other and from all text', () => {
    const readBinary = (base64: string) => readNode(`value: !!binary ${base64}`).value
    expect(readBinary('YWL/')).toBe('ab\udcff') // 61 62 ff
    expect(readBinary('/v/DqWHi')).toBe('\udcfe\udcff\u00e9a\udce2') // fe ff, c3 a9, 61, the first third of a letter
    expect(readBinary('8J+YgA==')).toBe('😀')
    expect(readBinary('7aCA')).toBe('\udced\udca0\udc80') // half a surrogate pair in UTF-8 is no UTF-8
  })
  for (const escaped of ['"\\ud800"', '"\\ud83d\\ude00"', '"a\\\\\\uDfffb"', '"\\U0000d800"']) {
    test(`${escaped}: halves of surrogate pairs are refused`, () => {
      expect(nodeError(`value: ${escaped}`)).toBe(`${PARSE}found invalid Unicode character escape code`)
    })
  }
  test('other escapes, and characters that are surrogate pairs in strings', () => {
    expect(readNode('value: "\\U0001F600 😀 \\\\ud800 \\u00e9"').value).toBe('😀 😀 \\ud800 é')
  })
})

describe('1.3 anchors, aliases, merge keys', () => {
  test('a limit shared by two nodes', () => {
    const { nodes } = read(
      'descriptors: [{key: a, rate_limit: &l {unit: day, requests_per_unit: 3}}, {key: b, rate_limit: *l}]',
    )
    expect(nodes[1].limit).toEqual(nodes[0].limit)
  })
  test('a merge key; later pairs take precedence', () => {
    const { nodes } = read('descriptors: [&a {key: a, value: x, shadow_mode: true}, {<<: *a, value: y}]')
    expect(nodes[1]).toMatchObject({ key: 'a', value: 'y', isShadow: true })
  })
  test('a limit beside a merge key replaces the merged one and does not change it', () => {
    const base = '&a {key: a, rate_limit: {unit: day, requests_per_unit: 3}}'
    const { nodes } = read(`descriptors: [${base}, {<<: *a, key: b, rate_limit: {requests_per_unit: 7}}]`)
    expect(nodes[1].limit).toMatchObject({ unit: 'day', requestsPerUnit: 7 })
    expect(nodes[0].limit).toMatchObject({ unit: 'day', requestsPerUnit: 3 })
  })
  test('of several merged maps the first takes precedence', () => {
    const { nodes } = read('descriptors: [&a {key: a}, &b {key: b, value: v}, {<<: [*a, *b]}]')
    expect(nodes[2]).toMatchObject({ key: 'a', value: 'v' })
  })
  test('an anchor used again takes its new value', () => {
    expect(read('domain: &x a\ndescriptors: [{key: *x}, {key: &x b}, {key: *x}]').nodes[2].key).toBe('b')
  })
  // biome-ignore format: the columns are the specification
  const errors = [
    ['value: *foo',           "unknown anchor 'foo' referenced"],
    ['descriptors: &a [*a]',  "anchor 'a' value contains itself"],
    ['<<: x',                 'line 4: map merge requires map or sequence of maps as the value'],
    ['value: !!int x',        'cannot decode !!str `x` as a !!int'],
    ['value: !!binary "***"', '!!binary value contains invalid base64 data'],
  ] as const
  for (const [line, text] of errors) test(line, () => expect(nodeError(line)).toBe(PARSE + text))
})

describe('1.4 metadata', () => {
  const readMetadata = (text: string) => readNode(`metadata: ${text}`).metadata
  // biome-ignore format: the columns are the specification
  const cases = [
    ['{a: 2026-01-02}',                    { a: '2026-01-02' }],
    ['{a: {1: x, true: y, 0x1F: z, yes: w}}', { a: { 1: 'x', true: 'w', 31: 'z' } }],
    ['{a: [1.5, 0x10, ~, no, "no"]}',      { a: [1.5, 16, null, false, 'no'] }],
    ['{1: x}',                             { 1: 'x' }],
    ['{}',                                 null],
    ['~',                                  null],
  ] as const
  for (const [written, value] of cases) test(written, () => expect(readMetadata(written)).toEqual(value))

  test('its content is not checked', () =>
    expect(readMetadata('{kee: [a, 1.5]}')).toEqual({ kee: ['a', 1.5] }))
  test('__proto__ is a key like others', () => {
    const metadata = readMetadata('{__proto__: {a: 1}}')
    expect(JSON.stringify(metadata)).toBe('{"__proto__":{"a":1}}')
    expect((metadata as { a?: number }).a).toBeUndefined()
  })
})

describe('bounds', () => {
  test('aliases of aliases of aliases', () => {
    const lines = ['domain: d', 'metadata:', '  a0: &a0 [x, x, x, x, x, x, x, x, x, x]']
    for (let i = 1; i < 9; i++)
      lines.push(
        `  a${i}: &a${i} [${Array(10)
          .fill(`*a${i - 1}`)
          .join(', ')}]`,
      )
    expect(getReadError(lines.join('\n'))).toContain(`${PARSE}line 9: document contains excessive aliasing`)
  })
  test('depth, also by aliases', () => {
    const deep = 600
    expect(getReadError(`metadata: ${'['.repeat(deep)}${']'.repeat(deep)}`)).toContain(
      'exceeded max depth of 500',
    )
    const lines = ['metadata:', '  a0: &a0 [x]']
    for (let i = 1; i < 600; i++) lines.push(`  a${i}: &a${i} [*a${i - 1}]`)
    expect(getReadError(lines.join('\n'))).toContain('exceeded max depth of 500')
  })
  test('deeper than the parser supports', () => {
    expect(getReadError('['.repeat(100_000))).toBe(`${PARSE}exceeded max depth of 500`)
  })
  test('a file of 16 MiB and one byte', () => {
    expect(getReadError(Buffer.alloc(16 * 1024 * 1024 + 1, ' '))).toBe(
      `${PARSE}file has 16777217 bytes, at most 16777216 are read`,
    )
  })
})

test('property: any text is a draft or a ConfigError of one file', () => {
  // biome-ignore format: pieces that tend to fit each other
  const piece = fc.constantFrom(
    'domain', 'key', 'value', 'descriptors', 'rate_limit', 'metadata', 'unit', 'name', ': ', ': ', ':', '- ', '\n', '\n  ',
    '\n    ', '{', '}', '[', ']', ',', '&a ', '*a', '<<', '!!int ', '!!binary ', '!!map ', '!x ', '? ', '| ', '> ', "'", '"',
    '1', '.5', '~', 'yes', '%', '#', '---\n', '\t', '\\', '\r', 'x', '@',
  )
  const yaml = fc.array(piece, { maxLength: 30 }).map((pieces) => pieces.join(''))
  fc.assert(
    fc.property(yaml, (text) => {
      try {
        read(text)
      } catch (error) {
        expect(error).toBeInstanceOf(ConfigError)
        expect((error as Error).message).toMatch(/^f\.yaml: /)
      }
    }),
    { numRuns: size({ small: 1_000, full: 200_000 }) },
  )
})
