/** Section 1.1, row by row: each field, its default and its meaning. */
import { describe, expect, test } from 'vitest'
import { loadRules } from '../../../engine/config/load.ts'
import type { Match } from '../../../engine/config/rules.ts'
import { Trie } from '../../../engine/match/trie.ts'
import { Unit } from '../../../proto/ratelimit.ts'
import { getLoadError, getNodeError, loadDomains, loadNode } from './loading.ts'

const DAY = 'rate_limit: {unit: day, requests_per_unit: 3}'

/** What a request finds in these nodes of domain `d`. */
async function found(nodes: string, ...pairs: string[]): Promise<Match> {
  const yaml = `domain: d\ndescriptors:\n${nodes}`
  const files = [{ name: '0.yaml', bytes: Buffer.from(yaml) }]
  const result = await loadRules({ from: 'files', files, isMerging: false })
  if (!result.ok) throw new Error(result.error)
  const trie = new Trie(result.image)
  const match: Match = { rule: null, statsKey: '', sharedValues: [] }
  const entries = pairs.map((pair) => ({ key: pair.split('=')[0], value: pair.split('=')[1] }))
  trie.match(trie.domain('d'), entries, match)
  return match
}

describe('1.1 the root', () => {
  test('1.1#1: domain, any text but the empty one, case-sensitive', () => {
    expect(loadDomains(['domain: Ab c/é', 'domain: ab c/é']).map(({ name }) => name)).toEqual([
      'Ab c/é',
      'ab c/é',
    ])
    expect(getLoadError('descriptors: []')).toBe('config file cannot have empty domain')
    expect(getLoadError('domain: ""')).toBe('config file cannot have empty domain')
  })
  test('1.1#2: descriptors, absent or null is none', () => {
    for (const yaml of ['domain: d', 'domain: d\ndescriptors:', 'domain: d\ndescriptors: []']) {
      expect(loadDomains([yaml])).toEqual([{ name: 'd', nodes: [] }])
    }
    expect(loadDomains(['domain: d\ndescriptors: [{key: a}, {key: b}]'])[0].nodes).toHaveLength(2)
  })
})

describe('1.1 a descriptor', () => {
  test('1.1#3: key, required, may hold a star', async () => {
    expect(getLoadError('domain: d\ndescriptors: [{value: x}]')).toBe('descriptor has empty key (line 2)')
    expect((await found(`  - {key: a*, ${DAY}}`, 'abc=1')).rule?.path).toBe('d.a*')
  })
  test('1.1#4: value, empty makes the default node of the key', async () => {
    expect(loadNode().value).toBe('')
    expect((await found(`  - {key: k, value: '', ${DAY}}`, 'k=anything')).rule?.path).toBe('d.k')
    expect((await found(`  - {key: k, value: x, ${DAY}}`, 'k=anything')).rule).toBeNull()
  })
  test('1.1#5: rate_limit, absent and null are no limit', () => {
    expect(loadNode().limit).toBeNull()
    expect(loadNode('rate_limit: ~').limit).toBeNull()
    expect(loadNode(DAY).limit).toMatchObject({ unit: Unit.Day, requestsPerUnit: 3 })
  })
  test('1.1#6: descriptors, its children', async () => {
    expect(loadNode().children).toEqual([])
    expect((await found(`  - {key: k, descriptors: [{key: c, ${DAY}}]}`, 'k=1', 'c=2')).rule?.path).toBe(
      'd.k.c',
    )
  })
  test('1.1#7: shadow_mode, off by default, of the rule of the same node only', async () => {
    const nodes = (flag: string) => `  - {key: k, ${flag} ${DAY}, descriptors: [{key: c, ${DAY}}]}`
    expect((await found(nodes(''), 'k=1')).rule?.isShadow).toBe(false)
    expect((await found(nodes('shadow_mode: true,'), 'k=1')).rule?.isShadow).toBe(true)
    expect((await found(nodes('shadow_mode: true,'), 'k=1', 'c=1')).rule?.isShadow).toBe(false)
  })
  test('1.1#8: quota_mode, off by default, of the rule of the same node only', async () => {
    const nodes = (flag: string) => `  - {key: k, ${flag} ${DAY}, descriptors: [{key: c, ${DAY}}]}`
    expect((await found(nodes(''), 'k=1')).rule?.isQuota).toBe(false)
    expect((await found(nodes('quota_mode: true,'), 'k=1')).rule?.isQuota).toBe(true)
    expect((await found(nodes('quota_mode: true,'), 'k=1', 'c=1')).rule?.isQuota).toBe(false)
  })
  test('1.1#9: detailed_metric, off by default, has an effect only on the node with the matched rule', async () => {
    const nodes = (above: string, below: string) =>
      `  - {key: k, ${above} descriptors: [{key: c, ${below} ${DAY}}]}`
    expect((await found(nodes('', ''), 'k=1', 'c=2')).statsKey).toBe('d.k.c')
    expect((await found(nodes('detailed_metric: true,', ''), 'k=1', 'c=2')).statsKey).toBe('d.k.c')
    expect((await found(nodes('', 'detailed_metric: true,'), 'k=1', 'c=2')).statsKey).toBe('d.k_1.c_2')
  })
  test('1.1#10: value_to_metric, off by default, has an effect on every node of the path', async () => {
    const nodes = (above: string, below: string) =>
      `  - {key: k, ${above} descriptors: [{key: c, ${below} ${DAY}}]}`
    expect((await found(nodes('value_to_metric: true,', ''), 'k=1', 'c=2')).statsKey).toBe('d.k_1.c')
    expect((await found(nodes('', 'value_to_metric: true,'), 'k=1', 'c=2')).statsKey).toBe('d.k.c_2')
  })
  test('1.1#11: share_threshold, off by default, needs a star', async () => {
    const match = (flag: string) => found(`  - {key: k, value: 'a*', ${flag} ${DAY}}`, 'k=ab')
    expect((await match('')).sharedValues).toEqual([''])
    expect((await match('share_threshold: true,')).sharedValues).toEqual(['a*'])
    expect(getNodeError('share_threshold: true')).toMatch(
      /^share_threshold can only be used with wildcard values/,
    )
  })
  test('1.1#12: metadata, any structure; its inner keys are not checked', async () => {
    expect(loadNode().metadata).toBeNull()
    const match = await found(`  - {key: k, ${DAY}, metadata: {kee: {1: [x, 2.5]}}}`, 'k=1')
    expect(match.rule?.metadata).toEqual({ kee: { 1: ['x', 2.5] } })
  })
})

describe('1.1 a limit', () => {
  test('1.1#13 12#34: unit, in any case, second to year; unknown is none', () => {
    const loadUnit = (unit: string) => loadNode(`rate_limit: {unit: ${unit}}`).limit?.unit
    // biome-ignore format: one line is the table
    const units = [['second', 1], ['MINUTE', 2], ['Hour', 3], ['dAy', 4], ['week', 7], ['Month', 5], ['YEAR', 6]] as const
    for (const [name, number] of units) expect(loadUnit(name)).toBe(number)
    expect(getNodeError('rate_limit: {unit: unknown}')).toBe("invalid rate limit unit 'unknown' (line 3)")
    expect(getNodeError('rate_limit: {requests_per_unit: 1}')).toBe("invalid rate limit unit '' (line 3)")
  })
  test('1.1#14: requests_per_unit, 0 to 2^32-1, absent is 0', () => {
    const loadRequestsPerUnit = (more: string) =>
      loadNode(`rate_limit: {unit: day${more}}`).limit?.requestsPerUnit
    expect(loadRequestsPerUnit('')).toBe(0)
    expect(loadRequestsPerUnit(', requests_per_unit: 0')).toBe(0)
    expect(loadRequestsPerUnit(', requests_per_unit: 4294967295')).toBe(4_294_967_295)
  })
  test('1.1#15: unlimited, off by default, without a unit', () => {
    expect(loadNode(DAY).limit?.isUnlimited).toBe(false)
    expect(loadNode('rate_limit: {unlimited: true}').limit?.isUnlimited).toBe(true)
    expect(getNodeError('rate_limit: {unlimited: true, unit: day}')).toMatch(
      /^should not specify rate limit unit/,
    )
  })
  test('1.1#16: name, none by default, goes with the limit', async () => {
    expect(loadNode(DAY).limit?.name).toBe('')
    const match = await found('  - {key: k, rate_limit: {unit: day, name: n}}', 'k=1')
    expect(match.rule?.limit.name).toBe('n')
  })
  test('1.1#17: replaces, a list of names, empty by default', async () => {
    expect(loadNode(DAY).limit?.replaces).toEqual([])
    const match = await found(
      '  - {key: k, rate_limit: {unit: day, replaces: [{name: a}, {name: b}]}}',
      'k=1',
    )
    expect(match.rule?.replaces).toEqual(['a', 'b'])
  })
})
