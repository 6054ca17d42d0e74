/** `on_store_error` and `local_share` in rule files: Sluice's own words, absent from all files of envoyproxy/ratelimit. */
import { describe, expect, test } from 'vitest'
import { load, loadRules } from '../../../engine/config/load.ts'
import { STORE_ERROR_POLICIES } from '../../../engine/config/rules.ts'
import { readYamlFast } from '../../../engine/config/yaml-fast-path.ts'
import { Trie } from '../../../engine/match/trie.ts'
import { DAY, lintNodes } from './linting.ts'
import { formatFile, getNodeError, loadNode } from './loading.ts'

test('neither is set by default', () => {
  expect(loadNode(DAY)).toMatchObject({ onStoreError: null, localShare: null })
  const empty = ["on_store_error: ''", 'local_share: ~']
  expect(loadNode(DAY, ...empty)).toMatchObject({ onStoreError: null, localShare: null })
})

test.each(STORE_ERROR_POLICIES)('on_store_error: %s reaches the compiled rule', async (policy) => {
  const text = formatFile(`on_store_error: ${policy}`, 'local_share: 34', 'rate_limit:', '  unit: day')
  expect(readYamlFast(text), 'these words do not need the YAML parser').not.toBeNull()
  const files = [{ name: '0.yaml', bytes: Buffer.from(text) }]
  const result = await loadRules({ from: 'files', files, isMerging: false })
  if (!result.ok) throw new Error(result.error)
  expect([...new Trie(result.image).rules()]).toMatchObject([{ onStoreError: policy, localShare: 34 }])
  expect(String(new Trie(result.image))).toContain(`0/DAY on_store_error ${policy} local_share 34`)
})

describe('errors name the value, what is allowed and the place', () => {
  // biome-ignore format: a table
  test.each([
    ['on_store_error: alow',     "invalid on_store_error 'alow': it is one of error, allow, deny, local (line 3)"],
    ['on_store_error: Allow',    "invalid on_store_error 'Allow': it is one of error, allow, deny, local (line 3)"],
    ['on_store_error: true',     "invalid on_store_error 'true': it is one of error, allow, deny, local (line 3)"],
    ['local_share: 0',           'invalid local_share 0: it is a percentage, a whole number from 1 to 100 without quotes or a percent sign (line 3)'],
    ['local_share: 101',         'invalid local_share 101: it is a percentage, a whole number from 1 to 100 without quotes or a percent sign (line 3)'],
    ['local_share: -5', "error loading config file: yaml: unmarshal errors:\n  line 5: invalid local_share -5: it is a percentage, a whole number from 1 to 100 without quotes or a percent sign"],
    ["local_share: '50'", "error loading config file: yaml: unmarshal errors:\n  line 5: invalid local_share '50': it is a percentage, a whole number from 1 to 100 without quotes or a percent sign"],
    ['local_share: 33.3', "error loading config file: yaml: unmarshal errors:\n  line 5: invalid local_share 33.3: it is a percentage, a whole number from 1 to 100 without quotes or a percent sign"],
    ['local_share: 34%', "error loading config file: yaml: unmarshal errors:\n  line 5: invalid local_share '34%': it is a percentage, a whole number from 1 to 100 without quotes or a percent sign"],
    ['local_share: 18446744073709551615', "error loading config file: yaml: unmarshal errors:\n  line 5: invalid local_share 1844674...: it is a percentage, a whole number from 1 to 100 without quotes or a percent sign"],
    ['local_share: [34]', "error loading config file: yaml: unmarshal errors:\n  line 5: invalid local_share !!seq: it is a percentage, a whole number from 1 to 100 without quotes or a percent sign"],
    ['on_store_error: [allow]',  'config error, yaml file contains list of type other than map: allow (line 5)'],
    ['on_store_errors: allow',   "config error, unknown key 'on_store_errors' (line 5)"],
  ])('%s', (line, error) => {
    expect(getNodeError(DAY, line)).toBe(error)
  })
})

describe('warnings', () => {
  // biome-ignore format: a table
  test.each([
    [`{key: a, ${DAY}, on_store_error: local, local_share: 50}`, []],
    [`{key: a, ${DAY}, local_share: 50}`,
      ['0.yaml: line 3: local_share without on_store_error has no effect unless STORE_ERROR_POLICY is local; write on_store_error: local']],
    [`{key: a, ${DAY}, on_store_error: }`, ['0.yaml: line 3: on_store_error is empty: STORE_ERROR_POLICY decides']],
    [`{key: a, ${DAY}, on_store_error: deny, local_share: 50}`,
      ['0.yaml: line 3: local_share has no effect with on_store_error: deny; it needs local']],
    ['{key: a, on_store_error: deny}',
      ['0.yaml: line 3: on_store_error on a descriptor without a limit: nothing is counted there']],
    ['{key: a, rate_limit: {unlimited: true}, on_store_error: local, local_share: 5}',
      ['0.yaml: line 3: on_store_error and local_share on a descriptor without a limit: nothing is counted there']],
    [`{key: p, descriptors: [{key: c, local_share: 5}]}`,
      ['0.yaml: line 3: local_share on a descriptor without a limit: nothing is counted there']],
    ['{key: a, rate_limit: {unit: day, requests_per_unit: 3, on_store_error: deny}}',
      ['0.yaml: line 3: on_store_error has no effect here; it belongs in a descriptor']],
  ])('%s', async (node, expected) => {
    expect(await lintNodes(node)).toEqual(expected)
  })
})

// biome-ignore format: a table
test.each([
  ['local', []],
  ['deny',  ['0.yaml: line 4: local_share without on_store_error has no effect while STORE_ERROR_POLICY is deny; write on_store_error: local']],
] as const)('local_share without a policy of its own, with STORE_ERROR_POLICY=%s', async (defaultPolicy, warnings) => {
  const yaml = `domain: d\ndescriptors:\n  -\n    {key: a, ${DAY}, local_share: 50}\n`
  const files = [{ name: '0.yaml', bytes: Buffer.from(yaml) }]
  const { lint } = await load({ from: 'files', files, isMerging: false, defaultPolicy })
  expect(await lint()).toEqual(warnings)
})
