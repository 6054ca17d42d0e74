/** Marks of content delivery networks: one strong or two weak ones name a provider. */
import { expect, test } from 'vitest'
import { parseRange } from '../../../monitor/egress/address.ts'
import { detectCdn } from '../../../monitor/probe/cdn.ts'
import { HEADER_MARKS, RANGE_MARKS } from '../../../monitor/probe/cdn-table.ts'

// biome-ignore format: the columns are the specification
const cases: [Record<string, string>, string[], string | null, string | null, string[]][] = [
  // headers, aliases, address ─► provider, evidence
  [{},                                                  [],                    null,         null,         []],
  [{ 'cf-ray': '8d1' },                                 [],                    null,         'cloudflare', ['header:cf-ray']],
  [{ server: 'cloudflare' },                            [],                    null,         null,         []],
  [{ server: 'nginx', 'cf-cache-status': 'HIT' },       [],                    null,         null,         []],
  [{ server: 'cloudflare', 'cf-cache-status': 'HIT' },  [],                    null,         'cloudflare', ['header:server', 'header:cf-cache-status']],
  [{},                                                  [],                    '104.16.0.1', 'cloudflare', ['cidr']],
  [{ 'cf-ray': '8d1' },                                 [],                    '104.16.0.1', 'cloudflare', ['header:cf-ray', 'cidr']],
  [{},                                                  [],                    '2606:4700::1', 'cloudflare', ['cidr']],
  [{},                                                  ['d1.cloudfront.net'], null,         'cloudfront', ['cname:cloudfront.net']],
  [{},                                                  ['notcloudfront.net'], null,         null,         []],
  [{ via: '1.1 varnish' },                              [],                    null,         null,         []],
  [{ via: '1.1 varnish', 'x-served-by': 'cache-fra-1' }, [],                   null,         'fastly',     ['header:x-served-by', 'header:via']],
  [{ 'x-akamai-transformed': '9' },                     [],                    null,         'akamai',     ['header:x-akamai-*']],
  [{ 'x-vercel-id': 'fra1::x' },                        [],                    null,         'vercel',     ['header:x-vercel-id']],
  [{ 'x-nf-request-id': '01' },                         [],                    null,         'netlify',    ['header:x-nf-request-id']],
  [{ 'ali-swift-global-savetime': '1' },                [],                    null,         'aliyun',     ['header:ali-swift-global-savetime']],
  [{ 'eo-log-uuid': '1' },                              [],                    null,         'edgeone',    ['header:eo-log-uuid']],
  [{ 'x-hw-id': '1' },                                  [],                    null,         'huawei',     ['header:x-hw-*']],
  // two of them: the one with more marks is in front
  [{ 'x-vercel-id': 'x', 'cf-ray': '8d1' },             [],                    '104.16.0.1', 'cloudflare', ['header:cf-ray', 'cidr']],
]
for (const [headers, cnames, address, provider, evidence] of cases) {
  test(`M6.2#6: ${JSON.stringify(headers)} ${cnames} ${address ?? ''}: ${provider}`, () => {
    expect(detectCdn({ headers: new Map(Object.entries(headers)), cnames, address })).toEqual({
      provider,
      evidence,
    })
  })
}

test('6.2: every range of the table is one, and every header lower case', () => {
  for (const text of Object.values(RANGE_MARKS).flat()) expect(parseRange(text), text).not.toBeNull()
  for (const { header } of HEADER_MARKS) expect(header).toBe(header.toLowerCase())
})
