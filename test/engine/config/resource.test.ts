/**
 * Resources of xDS as drafts (spec 8.6), against the .proto file read by protobufjs' own reflection; and what the whole
 * conversion from a response to rules reports of mistakes.
 */
import protobuf from 'protobufjs/minimal.js'
import { describe, expect, test } from 'vitest'
import { DESCRIPTOR_DEPTH_MAX, DESCRIPTORS_MAX } from '../../../engine/config/bounds.ts'
import { readResource } from '../../../engine/config/resource.ts'
import { loadResponse } from '../../../engine/config/response-job.ts'
import { Trie } from '../../../engine/match/trie.ts'
import { type Any, CONFIG, config, type DescriptorFields, responseBytes } from '../../helpers/xds-server.ts'

const DAY = { unit: 'DAY', requests_per_unit: 3 }

const readDraft = ({ type_url, value }: Any) => readResource({ typeUrl: type_url, value }, { descriptors: 0 })

async function load(resources: Any[], isMerging = false): Promise<string> {
  const { result } = await loadResponse({ response: responseBytes({ version: '1', resources }), isMerging })
  return result.ok ? String(new Trie(result.image)) : result.error
}

/** The error of one resource named `r`, behind that name. */
async function getLoadError(...descriptors: DescriptorFields[]): Promise<string> {
  return (await load([config('r', 'shop', descriptors)])).replace(/^r: /, '')
}

describe('8.6 the fields', () => {
  test('8.6#1-4: all fields', () => {
    const metadata = {
      fields: { team: { string_value: 'x' }, list: { list_value: { values: [{ number_value: 1.5 }] } } },
    }
    const drafts = readDraft(
      config('r', 'shop', [
        {
          key: 'user',
          value: '*',
          rate_limit: {
            unit: 'WEEK',
            requests_per_unit: 4294967295,
            name: 'mine',
            replaces: [{ name: 'a' }, { name: 'b' }],
          },
          shadow_mode: true,
          detailed_metric: true,
          quota_mode: true,
          metadata,
          descriptors: [{ key: 'plan', rate_limit: { unlimited: true } }],
        },
        { key: 'path' },
      ]),
    )
    const nothing = {
      line: 0,
      value: '',
      limit: null,
      nodes: [],
      isShadow: false,
      isQuota: false,
      onStoreError: '',
      localShare: null,
      hasDetailedMetric: false,
      hasValueToMetric: false,
      hasShareThreshold: false,
      metadata: null,
    }
    const unlimited = { unit: 'UNKNOWN', requestsPerUnit: 0, isUnlimited: true, name: '', replaces: [] }
    expect(drafts).toEqual({
      file: 'r',
      domain: 'shop',
      nodes: [
        {
          ...nothing,
          key: 'user',
          value: '*',
          limit: {
            unit: 'WEEK',
            requestsPerUnit: 4294967295,
            isUnlimited: false,
            name: 'mine',
            replaces: ['a', 'b'],
          },
          isShadow: true,
          isQuota: true,
          hasDetailedMetric: true,
          metadata: { team: 'x', list: [1.5] },
          nodes: [{ ...nothing, key: 'plan', limit: unlimited }],
        },
        { ...nothing, key: 'path' },
      ],
    })
  })

  test('8.6#5: the units by number', async () => {
    const units = ['SECOND', 'MINUTE', 'HOUR', 'DAY', 'MONTH', 'YEAR', 'WEEK']
    const descriptors = units.map((_unit, i) => ({
      key: `k${i}`,
      rate_limit: { unit: i + 1, requests_per_unit: 1 },
    }))
    const rules = await load([config('r', 'shop', descriptors)])
    expect(rules.match(/[A-Z]+$/gm)).toEqual(units)
  })

  test('a policy that is sent twice is merged', () => {
    const writer = new protobuf.Writer()
    const descriptor = [0x0a, 1, 0x6b, 0x1a, 2, 0x08, 4, 0x1a, 2, 0x10, 9] // key "k", unit 4, requests_per_unit 9
    writer.uint32(0x1a).bytes(Uint8Array.from(descriptor))
    const [node] = readDraft({ type_url: CONFIG, value: writer.finish() }).nodes
    expect(node.limit).toMatchObject({ unit: 'DAY', requestsPerUnit: 9 })
  })

  test('empty metadata counts as absent', () => {
    expect(readDraft(config('r', 'shop', [{ key: 'k', metadata: {} }])).nodes[0].metadata).toBeNull()
  })

  test('the type is the text after the last slash', () => {
    const { value } = config('r', 'shop', [])
    expect(
      readDraft({ type_url: 'example.org/x/ratelimit.config.ratelimit.v3.RateLimitConfig', value }).domain,
    ).toBe('shop')
    expect(() => readDraft({ type_url: 'ratelimit.config.ratelimit.v3.RateLimitConfigs', value })).toThrow(
      'mismatched message type: got "ratelimit.config.ratelimit.v3.RateLimitConfigs", want "ratelimit.config.ratelimit.v3.RateLimitConfig"',
    )
  })
})

describe('8.6 errors are those of 1.4, after the name of the resource', () => {
  // biome-ignore format: the columns are the specification
  const cases: [descriptor: DescriptorFields, error: string][] = [
    [{ key: 'k', rate_limit: {} },                                   "invalid rate limit unit 'UNKNOWN'"],
    [{ key: 'k', rate_limit: { unit: 8 } },                          "invalid rate limit unit '8'"],
    [{ key: 'k', rate_limit: { unit: -1 } },                         "invalid rate limit unit '-1'"],
    [{ key: 'k', rate_limit: { ...DAY, unlimited: true } },          'should not specify rate limit unit when unlimited'],
    [{ key: 'k', rate_limit: { ...DAY, replaces: [{}] } },           'should not have an empty replaces entry'],
    [{ key: 'k', rate_limit: { ...DAY, name: 'n', replaces: [{ name: 'n' }] } }, 'replaces should not contain name of same descriptor'],
    [{ value: 'v' },                                                 'descriptor has empty key'],
    [{ key: 'k', descriptors: [{ key: 'a' }, { key: 'a' }] },        "duplicate descriptor composite key 'shop.k.a'"],
  ]
  for (const [descriptor, error] of cases) {
    test(error, async () => expect(await getLoadError(descriptor)).toBe(error))
  }

  test('an unlimited policy needs no unit and accepts an unknown one', async () => {
    const unlimited = { key: 'a', rate_limit: { unlimited: true } }
    const odd = { key: 'b', rate_limit: { unlimited: true, unit: 99 } }
    expect((await getLoadError(unlimited, odd)).match(/unlimited/g)).toHaveLength(2)
  })

  test('domains: empty, twice, merged in the order of the response', async () => {
    expect(await load([config('r', '', [])])).toBe('r: config file cannot have empty domain')
    const two = [config('z', 'shop', [{ key: 'z' }]), config('a', 'shop', [{ key: 'a' }])]
    expect(await load(two)).toBe("a: duplicate domain 'shop' in config file")
    expect(await load(two, true)).toBe('shop\n  z\n  a')
  })
})

describe('8.6 resources that cannot be decoded', () => {
  /** Descriptors inside each other, of key `k`; protobufjs' reflection ends at 100. */
  function nested(count: number): Any {
    const key = [0x0a, 1, 0x6b]
    let descriptor: Uint8Array = Uint8Array.from(key)
    for (let i = 1; i < count; i++) {
      descriptor = new protobuf.Writer().raw(Uint8Array.from(key)).uint32(0x22).bytes(descriptor).finish()
    }
    const value = new protobuf.Writer().uint32(0x12).string('shop').uint32(0x1a).bytes(descriptor).finish()
    return { type_url: CONFIG, value }
  }

  test('levels beyond the bound, before they overflow the stack', async () => {
    expect(await load([nested(DESCRIPTOR_DEPTH_MAX)])).toMatch(/^shop\n/)
    const error = 'resource 1 cannot be decoded: descriptors are nested more than 100 deep'
    expect(await load([nested(DESCRIPTOR_DEPTH_MAX + 1)])).toBe(error)
    expect(await load([nested(10_000)])).toBe(error)
  })

  test('descriptors beyond the bound, over all resources', async () => {
    const half = Buffer.alloc(DESCRIPTORS_MAX + 2)
    for (let i = 0; i < half.length; i += 2) half[i] = 0x1a // an empty descriptor: 1a 00
    const resource = { type_url: CONFIG, value: half }
    expect(await load([resource, resource])).toBe(
      'resource 2 cannot be decoded: more than 1000000 descriptors',
    )
  })

  test('text that is not UTF-8, and bytes that are not a message', async () => {
    const of = (...value: number[]) => load([{ type_url: CONFIG, value: Uint8Array.from(value) }])
    expect(await of(0x12, 1, 0xff)).toMatch(/^resource 1 cannot be decoded: /)
    expect(await of(0x1a, 3, 0x0a, 9, 0)).toMatch(/^resource 1 cannot be decoded: /)
    expect(await of(0x0f)).toMatch(/^resource 1 cannot be decoded: /)
  })
})
