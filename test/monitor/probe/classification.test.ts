/** Classification of single responses: listings, programs, hygiene; and cleaning of untrusted text. */
import { expect, test } from 'vitest'
import type { Visit } from '../../../monitor/egress/egress.ts'
import { checkHygiene } from '../../../monitor/probe/hygiene.ts'
import { MODELS_MAX, modelIds, modelsIn } from '../../../monitor/probe/listing.ts'
import type { ProbeResponse } from '../../../monitor/probe/probe-response.ts'
import { getMember, toProbeResponse } from '../../../monitor/probe/probe-response.ts'
import { detectSoftware } from '../../../monitor/probe/software.ts'

const timings = { dnsMs: 1, connectMs: 1, tlsMs: 1, ttfbMs: 1, totalMs: 1 }
function visit(status: number | null, body = '', changes: Partial<Visit> = {}): Visit {
  const url = 'http://relay.example.org/'
  return {
    ...{
      error: null,
      detail: null,
      isOurs: false,
      hasStalled: false,
      url,
      status,
      httpVersion: '1.1',
      headers: new Map(),
      timings,
    },
    ...{ body: Buffer.from(body), certificate: null, addresses: [], hasIpv6: false, remoteAddress: null },
    triedAddress: null,
    ...{ isReused: false, hops: [{ url, status, location: null, remoteAddress: null, timings }] },
    ...changes,
  }
}
const createResponse = (
  path: string,
  status: number,
  json: unknown,
  headers: Record<string, string> = {},
): ProbeResponse =>
  toProbeResponse(
    path,
    visit(status, JSON.stringify(json), { headers: new Map(Object.entries(headers)) }),
  ) as ProbeResponse

// biome-ignore format: the columns are the specification
const lists: [unknown, string[] | null][] = [
  [{ data: [{ id: 'a' }] },                          ['a']],
  [{ data: [] },                                     []],
  [{ data: [{ name: 'a' }] },                        null], // not one entry with an id
  [{ data: [{ id: 'a' }, { id: 7 }, null, 'b'] },    ['a']],
  [{ data: { id: 'a' } },                            null],
  [{ models: ['a', { id: 'b' }, { name: 'c' }] },    ['a', 'b', 'c']],
  [{ success: false, message: 'no' },                null],
  [[{ id: 'a' }],                                    null],
  [null,                                             null],
  ['text',                                           null],
  [JSON.parse('{"__proto__":{"data":[]}}'),          null],
]
for (const [json, models] of lists) {
  test(`M6.2#3: ${JSON.stringify(json)} is ${models ? `a listing of ${models.length}` : 'no listing'}`, () =>
    expect(modelsIn(json)).toEqual(models))
}

test('M6.2#4: bounds of ids', () => {
  expect(modelIds(['x'.repeat(128), 'x'.repeat(129)])).toEqual(['x'.repeat(128)])
  expect(modelIds([`models/${'x'.repeat(128)}`])).toEqual(['x'.repeat(128)])
  expect(modelIds(['models/', ' ', '\u0000'])).toEqual([])
  expect(modelIds(Array.from({ length: MODELS_MAX + 1 }, (_, i) => `${i}`))).toHaveLength(MODELS_MAX)
})

test('5: only own members of a response count', () => {
  expect(getMember({ a: { b: 1 } }, 'a.b')).toBe(1)
  expect(getMember({}, 'constructor')).toBeUndefined()
  expect(getMember({}, '__proto__')).toBeUndefined()
  expect(getMember([1], 'length')).toBeUndefined()
})

// biome-ignore format: the columns are the specification
const programs: [string, ProbeResponse[], string, number][] = [
  ['nothing',                            [],                                                                      'unknown', 0],
  ['one weak mark is not enough',        [createResponse('/api/status', 200, { data: { uptime_kuma_enabled: 1 } })],      'unknown', 0],
  ['two weak marks are',                 [createResponse('/api/pricing', 200, { group_ratio: {}, usable_group: {} })],    'new-api', 0.64],
  ['one strong mark',                    [createResponse('/v1/models', 401, { error: { type: 'new_api_error' } })],       'new-api', 0.9],
  ['a strong and a weak one',            [createResponse('/api/status', 200, { data: { HeaderNavModules: '' } }, { 'x-new-api-version': 'v1' })], 'new-api', 0.94],
  ['marks of a descendant hide the rest', [createResponse('/', 200, {}, { 'x-oneapi-request-id': '1', 'x-new-api-version': 'v1' })], 'new-api', 0.9],
  ['a weak descendant hides nobody',     [createResponse('/api/status', 200, { data: { uptime_kuma_enabled: 1 } }, { 'x-oneapi-request-id': '1' })], 'one-api', 0.9],
  ['a mark on another path is none',     [createResponse('/health', 200, { data: { needs_setup: false, step: 1 }, code: 0 })], 'unknown', 0],
]
for (const [what, answers, name, confidence] of programs) {
  test(`6.2: ${what}: ${name}, ${confidence}`, () =>
    expect(detectSoftware(answers)).toMatchObject({ name, confidence }))
}

test('6.2: a version is at most 40 characters, and only a text', () => {
  const versionShown = (version: unknown) =>
    detectSoftware([
      createResponse('/api/status', 200, { error: { type: 'one_api_error' }, data: { version } }),
    ]).version
  expect(versionShown('v'.repeat(50))).toBe('v'.repeat(40))
  expect([versionShown(''), versionShown(1), versionShown(null), versionShown({})]).toEqual([
    null,
    null,
    null,
    null,
  ])
})

const https = new URL('https://relay.example.org')
const hop = (location: string | null, status: number | null = 301) =>
  visit(status, '', {
    hops: [{ url: 'http://relay.example.org/', status, location, remoteAddress: null, timings }],
  })
// biome-ignore format: the columns are the specification
const insecure: [string, Visit | null, boolean | null][] = [
  ['leads to https',            hop('https://relay.example.org/'),             true],
  ['leads to https elsewhere',  hop('https://www.example.org/'),               true],
  ['leads to http',             hop('/login'),                                 false],
  ['answers itself',            hop(null, 200),                                false],
  ['is closed',                 visit(null, '', { error: 'connect_refused' }), true],
  ['is silent',                 visit(null, '', { error: 'connect_timeout' }), true],
  ['accepts and then hangs up', visit(null, '', { error: 'http_reset' }),      null],
  ['may not be asked',          visit(null, '', { error: 'target_not_allowed' }), null],
  ['was not asked',             null,                                          null],
]
for (const [what, found, redirectsToHttps] of insecure) {
  test(`7.2: port 80 ${what}: ${redirectsToHttps}`, () =>
    expect(checkHygiene(https, [], found).redirectsToHttps).toBe(redirectsToHttps))
}

test('7.2: HSTS counts over https, with an age', () => {
  const hsts = (value: string, base = https) =>
    checkHygiene(base, [createResponse('/', 200, {}, { 'strict-transport-security': value })], null).hasHsts
  expect([hsts('max-age=31536000; includeSubDomains'), hsts('max-age=0'), hsts('preload')]).toEqual([
    true,
    false,
    false,
  ])
  expect(hsts('max-age=1', new URL('http://relay.example.org'))).toBe(false)
  expect(checkHygiene(https, [], null).hasHsts).toBeNull()
})

// biome-ignore format: the columns are the specification
const leaks: [string, boolean][] = [
  ['Invalid token',                                                            false],
  ['see https://platform.openai.com/account/api-keys',                         false],
  ['Incorrect API key provided: sk-abcd****************wxyz',                  false],
  ['Incorrect API key provided: sk-proj-abcdefghijklmnopqrstuvwxyz',           true],
  ['Post "https://api.anthropic.com/v1/messages": EOF',                        true],
  ['my-team.openai.azure.com did not answer',                                  true],
  [`${'a-'.repeat(100)} my-team.openai.azure.com did not answer`,              true],
  [`${'a'.repeat(64)}.openai.azure.com`,                                       false], // no label is that long
  ['ark.cn-beijing.volces.com and bedrock-runtime.us-east-1.amazonaws.com',    true],
  ['dial tcp 10.1.2.3:3000: connect: connection refused',                      true],
  ['https://relay.example.org/v1 is down',                                     false],
]
for (const [message, isLeak] of leaks) {
  test(`7.2: an error "${message}" ${isLeak ? 'leaks' : 'does not leak'}`, () => {
    expect(checkHygiene(https, [createResponse('/', 500, { error: message })], null).leaksUpstream).toBe(
      isLeak,
    )
    expect(checkHygiene(https, [createResponse('/', 200, { error: message })], null).leaksUpstream).toBeNull()
  })
}
