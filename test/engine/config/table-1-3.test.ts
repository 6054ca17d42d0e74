/** Section 1.3, row by row: what a file may contain, and the errors for everything else. */
import { describe, expect, test } from 'vitest'
import { formatFile, getLoadError, getNodeError, loadDomains, loadNode } from './loading.ts'

const YAML = 'error loading config file: yaml: '
const CANNOT = `${YAML}unmarshal errors:\n  line 4: cannot unmarshal `
const LIST = 'config error, yaml file contains list of type other than map: '

describe('1.3 keys, lists, leaves', () => {
  test('1.3#1: a key that is not text', () => {
    for (const key of ['1', '0.25', 'true', 'y', 'yes', 'no', 'on', 'off']) {
      expect(getNodeError(`${key}: x`)).toBe(`config error, key is not of type string: ${key} (line 4)`)
    }
    expect(getNodeError('null: x')).toBe('config error, key is not of type string: <nil> (line 4)')
  })
  test('1.3#2: an unknown key', () => {
    expect(getNodeError('kee: x')).toBe("config error, unknown key 'kee' (line 4)")
    expect(getNodeError('Unit: x')).toBe("config error, unknown key 'Unit' (line 4)")
  })
  // biome-ignore format: as the specification lists them
  const words = [
    'domain', 'key', 'value', 'descriptors', 'rate_limit', 'unit', 'requests_per_unit', 'unlimited', 'shadow_mode',
    'quota_mode', 'name', 'replaces', 'detailed_metric', 'value_to_metric', 'share_threshold', 'metadata',
  ]
  for (const word of words) {
    test(`1.3: ${word} is known at any depth`, () => {
      expect(getLoadError(`domain: d\n${word === 'domain' ? 'name' : word}: ~`)).toBe('no error')
      expect(getLoadError(`domain: d\nname: {name: {${word}: ~}}`)).toBe('no error')
    })
  }
  test('1.3#3: an element of a list that is not a map', () => {
    expect(getNodeError('descriptors: [{key: a}, x]')).toBe(`${LIST}x (line 4)`)
    expect(getNodeError('name: [[a, b]]')).toBe(`${LIST}[a b] (line 4)`)
  })
  test('1.3#4: a scalar that is a fraction or an integer above 2^63-1', () => {
    for (const leaf of ['1.5', '9223372036854775808', '.nan']) {
      expect(getNodeError(`value: ${leaf}`)).toBe('error checking config (line 4)')
      expect(getNodeError(`rate_limit: {name: ${leaf}}`)).toBe('error checking config (line 4)')
    }
    expect(loadNode('value: 9223372036854775807').value).toBe('9223372036854775807')
  })
})

describe('1.3 documents', () => {
  test('1.3#5: an empty file has an empty root', () => {
    for (const yaml of ['', '# nothing\n', 'null'])
      expect(getLoadError(yaml)).toBe('config file cannot have empty domain')
  })
  test('1.3#6: a scalar as root', () => {
    const text =
      'unmarshal errors:\n  line 1: cannot unmarshal !!str `foo` into map[interface {}]interface {}'
    expect(getLoadError('foo')).toBe(YAML + text)
  })
  test('1.3#7: a list as root', () => {
    const text = 'unmarshal errors:\n  line 1: cannot unmarshal !!seq into map[interface {}]interface {}'
    expect(getLoadError('- a')).toBe(YAML + text)
  })
  test('1.3#8: only the first document is read', () => {
    expect(loadDomains(['domain: a\n---\ndomain: [\n']).map(({ name }) => name)).toEqual(['a'])
  })
  test('1.3#9: a byte order mark', () => expect(loadDomains(['\ufeffdomain: a'])[0].name).toBe('a'))
})

describe('1.3 value', () => {
  test('1.3#10: is the source text, not the YAML value', () => {
    // biome-ignore format: as the specification lists them
    const texts = ['15', '0x1F', '010', '1_000', 'yes', 'true', '2026-01-02', '12:30:45', '10.0.0.1']
    for (const text of texts) expect(loadNode(`value: ${text}`).value).toBe(text)
  })
  test('1.3#11: null is empty', () => {
    for (const text of ['null', '~', '', "''"]) expect(loadNode(`value: ${text}`).value).toBe('')
  })
  test('1.3#12: fractions and integers above 2^63-1', () => {
    for (const text of ['1.5', '.5', '1e3', '18446744073709551615']) {
      expect(getNodeError(`value: ${text}`)).toBe('error checking config (line 4)')
    }
  })
  test('1.3#13: bytes', () => expect(loadNode('value: !!binary aGk=').value).toBe('hi'))
  test('1.3#14: a leading star is an alias', () => {
    expect(getNodeError('value: *foo')).toBe(`${YAML}unknown anchor 'foo' referenced`)
  })
})

describe('1.3 requests_per_unit', () => {
  const line = (text: string) => `rate_limit: {unit: day, requests_per_unit: ${text}}`
  test('1.3#15: integers in every notation', () => {
    // biome-ignore format: one line is the table
    const cases = [['5', 5], ['+5', 5], ['0x10', 16], ['010', 8], ['0b11', 3], ['0o17', 15], ['1_000', 1000]] as const
    for (const [text, requests] of cases) expect(loadNode(line(text)).limit?.requestsPerUnit).toBe(requests)
  })
  // biome-ignore format: the columns are the specification
  const refused = [
    ['1.3#16', "'5'",        `${CANNOT}!!str \`5\` into uint32`],
    ['1.3#17', '-1',         `${CANNOT}!!int \`-1\` into uint32`],
    ['1.3#18', '4294967296', `${CANNOT}!!int \`4294967296\` into uint32`],
    ['1.3#19', '1.0',        'error checking config (line 4)'],
    ['1.3#19', '5.5',        'error checking config (line 4)'],
    ['1.3#20', 'true',       `${CANNOT}!!bool \`true\` into uint32`],
  ] as const
  for (const [id, text, error] of refused) {
    test(`${id}: ${text} is refused`, () => expect(getNodeError(line(text))).toBe(error))
  }
  test('1.3#21: null is 0', () => expect(loadNode(line('null')).limit?.requestsPerUnit).toBe(0))
})

describe('1.3 booleans', () => {
  const flags = ['shadow_mode', 'quota_mode', 'detailed_metric', 'value_to_metric']
  const fields = ['isShadow', 'isQuota', 'hasDetailedMetric', 'hasValueToMetric'] as const
  const unlimited = (text: string) =>
    loadNode(`rate_limit: {unit: none, unlimited: ${text}}`).limit?.isUnlimited
  test('1.3#22: texts for true, texts for false', () => {
    for (const text of ['true', 'True', 'TRUE', 'yes', 'y', 'on']) {
      for (const [i, flag] of flags.entries()) expect(loadNode(`${flag}: ${text}`)[fields[i]]).toBe(true)
      expect(unlimited(text)).toBe(true)
    }
    for (const text of ['false', 'False', 'FALSE', 'no', 'n', 'off']) {
      for (const [i, flag] of flags.entries()) expect(loadNode(`${flag}: ${text}`)[fields[i]]).toBe(false)
    }
  })
  test('1.3#23: text and numbers are neither', () => {
    for (const flag of flags) {
      expect(getNodeError(`${flag}: 'true'`)).toBe(`${CANNOT}!!str \`true\` into bool`)
      expect(getNodeError(`${flag}: 1`)).toBe(`${CANNOT}!!int \`1\` into bool`)
    }
  })
})

describe('1.3 kinds', () => {
  test('1.3#24: rate_limit null is no limit', () => expect(loadNode('rate_limit:').limit).toBeNull())
  // biome-ignore format: the columns are the specification
  const cases = [
    ['1.3#25', 'rate_limit: {}',             "invalid rate limit unit '' (line 3)"],
    ['1.3#26', 'rate_limit: x',              `${CANNOT}!!str \`x\` into config.YamlRateLimit`],
    ['1.3#27', 'rate_limit: [{unit: day}]',  `${CANNOT}!!seq into config.YamlRateLimit`],
    ['1.3#28', 'descriptors: x',             `${CANNOT}!!str \`x\` into []config.YamlDescriptor`],
    ['1.3#29', 'descriptors: {key: a}',      `${CANNOT}!!map into []config.YamlDescriptor`],
    ['1.3#30', 'descriptors: [null]',        `${LIST}<nil> (line 4)`],
    ['1.3#30', 'descriptors: [{key: a}, ]\n  - ', `${LIST}<nil> (line 5)`],
    ['1.3#31', 'rate_limit: {replaces: x}',  `${CANNOT}!!str \`x\` into []config.yamlReplaces`],
    ['1.3#32', 'rate_limit: {replaces: {name: x}}', `${CANNOT}!!map into []config.yamlReplaces`],
    ['1.3#33', 'rate_limit: {replaces: [x]}', `${LIST}x (line 4)`],
    ['1.3#34', 'metadata: x',                `${CANNOT}!!str \`x\` into map[string]interface {}`],
    ['1.3#34', 'metadata: [a]',              `${CANNOT}!!seq into map[string]interface {}`],
  ] as const
  for (const [id, line, error] of cases) {
    test(`${id}: ${JSON.stringify(line)}`, () => expect(getNodeError(line)).toBe(error))
  }
  test('1.3#35: a number is a domain', () => expect(loadDomains(['domain: 5'])[0].name).toBe('5'))
  test('1.3#36: a list of text is not a domain', () =>
    expect(getLoadError('domain: [a]')).toBe(`${LIST}a (line 1)`))
  test('1.3#37: nor is an empty list', () => {
    expect(getLoadError('domain: []')).toBe(
      `${YAML}unmarshal errors:\n  line 1: cannot unmarshal !!seq into string`,
    )
  })
})

describe('1.3 syntax', () => {
  test('1.3#38: anchors, aliases, merge keys', () => {
    const yaml = `domain: d
metadata: {name: &limit {unit: day, requests_per_unit: 3}}
descriptors:
  - &base {key: a, rate_limit: *limit, shadow_mode: true}
  - {<<: *base, key: b}`
    const [a, b] = loadDomains([yaml])[0].nodes
    expect(a.limit).toMatchObject({ unit: 4, requestsPerUnit: 3 })
    expect(b).toEqual({ ...a, key: 'b', line: b.line })
    expect(getLoadError(yaml.replace('name:', 'anchors:'))).toBe('no error') // what is under metadata is not looked at
    expect(getLoadError(yaml.replace('metadata:', 'anchors:'))).toBe(
      "config error, unknown key 'anchors' (line 2)",
    )
  })
  test('1.3#39: a list as a key', () => {
    expect(getLoadError('? [a]\n: b')).toMatch(/^error loading config file: yaml: invalid map key: /)
  })
  test('1.3#40: a quote that is not closed', () => {
    for (const yaml of ["'''", "domain: 'd", formatFile('value: "x')]) {
      expect(getLoadError(yaml)).toMatch(/^error loading config file: yaml: line \d+: /)
    }
    expect(getLoadError("'''")).toContain('found unexpected end of stream')
  })
  test('1.3#41: a tab as indentation', () => {
    expect(getLoadError('domain: d\ndescriptors:\n\t- key: a')).toMatch(
      /^error loading config file: yaml: line 3: /,
    )
  })
  test('1.3#42: control characters and bytes that are not UTF-8', () => {
    expect(getLoadError('domain: a\x01')).toBe(`${YAML}control characters are not allowed`)
    expect(getLoadError(Buffer.from('domain: \xff', 'latin1'))).toBe(`${YAML}invalid leading UTF-8 octet`)
  })
})
