/** The static checks: what is said of a URL before anyone is asked. */
import { expect, test } from 'vitest'
import { parseRange } from '../../../monitor/egress/address.ts'
import type { UrlPolicy } from '../../../monitor/egress/url-policy.ts'
import { checkUrl, hasSuffix } from '../../../monitor/egress/url-policy.ts'

const policy: UrlPolicy = {
  ports: new Set([80, 443, 3000, 8000, 8080, 8443]),
  addresses: { deny: [], nat64: null, testAllow: [] },
  ownNames: new Set(['monitor.example.org']),
  optOut: new Set(['optout.example.com', 'dev', '9.9.9.9']),
}

function outcome(text: string, extraPort?: number): string {
  const verdict = checkUrl(text, policy, ['1.0.0.1'], extraPort)
  if ('refusal' in verdict) return `${verdict.refusal.code} ${verdict.refusal.reason}`
  const { url, host, port, isTls, isLiteral } = verdict.target
  return [url.href, host, port, isTls ? 'tls' : 'plain', isLiteral ? 'address' : 'name'].join(' ')
}

const long = (label: string, length: number) => `http://${`${label}.`.repeat(130)}`.slice(0, 7 + length)

// biome-ignore format: the columns are the specification
const allowed = [
  ['http://relay.example.com',                    'http://relay.example.com/ relay.example.com 80 plain name'],
  ['HTTPS://Relay.Example.COM./v1#x',             'https://relay.example.com/v1 relay.example.com 443 tls name'],
  ['https://relay.example.com:8443/a?b=c',        'https://relay.example.com:8443/a?b=c relay.example.com 8443 tls name'],
  ['https://relay.example.com:443/',              'https://relay.example.com/ relay.example.com 443 tls name'],
  ['http://relay.example.com:443/',               'http://relay.example.com:443/ relay.example.com 443 plain name'],
  ['http://8.8.8.8/',                             'http://8.8.8.8/ 8.8.8.8 80 plain address'],
  ['http://134744072/',                           'http://8.8.8.8/ 8.8.8.8 80 plain address'],
  ['https://[2606:4700:4700::1111]:8443/',        'https://[2606:4700:4700::1111]:8443/ 2606:4700:4700::1111 8443 tls address'],
  ['https://中转。例子.com/',                      'https://xn--fiqq40n.xn--fsqu00a.com/ xn--fiqq40n.xn--fsqu00a.com 443 tls name'],
  ['http://a_b.example.com/',                     'http://a_b.example.com/ a_b.example.com 80 plain name'],
  ['http://mylocalhost.com/',                     'http://mylocalhost.com/ mylocalhost.com 80 plain name'],
  ['http://example.com/',                         'http://example.com/ example.com 80 plain name'],
  ['http://sub.monitor.example.org/',             'http://sub.monitor.example.org/ sub.monitor.example.org 80 plain name'],
  ['http://myoptout.example.com/',                'http://myoptout.example.com/ myoptout.example.com 80 plain name'],
] as const
for (const [text, wanted] of allowed)
  test(`M5#2: ${text} may be requested`, () => expect(outcome(text)).toBe(wanted))

// biome-ignore format: the columns are the specification
const refused = [
  ['',                                  'invalid_url form'],
  ['relay.example.com',                 'invalid_url form'],
  ['//relay.example.com/',              'invalid_url form'],
  ['/v1',                               'invalid_url form'],
  [`http://a.com/${'x'.repeat(2036)}`,  'invalid_url form'],
  ['http://relay.example.com:65536/',   'invalid_url form'],
  ['http://256.1.1.1/',                 'invalid_url form'],
  ['ftp://relay.example.com/',          'invalid_url scheme'],
  ['file:///etc/passwd',                'invalid_url scheme'],
  ['gopher://relay.example.com/',       'invalid_url scheme'],
  ['javascript:alert(1)',               'invalid_url scheme'],
  ['ws://relay.example.com/',           'invalid_url scheme'],
  ['http://a@relay.example.com/',       'invalid_url user_info'],
  ['http://:b@relay.example.com/',      'invalid_url user_info'],
  ['http://relay.example.com:0/',       'invalid_url port'],
  ['http://a..com/',                    'invalid_url host'],
  ['http://relay.example.com../',       'invalid_url host'],
  ['http://127.0.0.1../',               'invalid_url host'],
  ['http://0x7f.1../',                  'invalid_url host'],
  ['http://./',                         'invalid_url host'],
  ['http://-a.com/',                    'invalid_url host'],
  ['http://a*.com/',                    'invalid_url host'],
  [`http://${'a'.repeat(64)}.com/`,     'invalid_url host'],
  [`${long('ab', 254)}`,                'invalid_url host'],
  ['http://relay.example.com:22/',      'target_not_allowed port'],
  ['http://relay.example.com:9000/',    'target_not_allowed port'],
  ['http://monitor.example.org/',       'target_not_allowed own_name'],
  ['http://MONITOR.example.org./',      'target_not_allowed own_name'],
  ['http://optout.example.com/',        'target_not_allowed opted_out'],
  ['http://a.b.optout.example.com/',    'target_not_allowed opted_out'],
  ['http://site.dev/',                  'target_not_allowed opted_out'],
  ['http://9.9.9.9/',                   'target_not_allowed opted_out'],
  ['http://1.0.0.1/',                   'target_not_allowed own'],
  ['http://intranet/',                  'target_not_allowed name'],
  ['http://relay/',                     'target_not_allowed name'],
] as const
for (const [text, wanted] of refused) {
  test(`M5#2 3.4: ${text.slice(0, 60)} is ${wanted}`, () => expect(outcome(text)).toBe(wanted))
}

test('5.2: the longest host there may be', () => {
  const host = `${'ab.'.repeat(84)}c` // 253
  expect(outcome(`http://${host}/`)).toBe(`http://${host}/ ${host} 80 plain name`)
  expect(outcome(`http://${host}c/`)).toBe('invalid_url host')
  expect(outcome(`http://${'a'.repeat(63)}.com/`)).toContain('name')
  expect(outcome(`http://a.com/${'x'.repeat(2035)}`)).toContain('name')
})

// biome-ignore format: the list of the specification
const suffixes = [
  'localhost', 'local', 'internal', 'intranet', 'lan', 'home.arpa', 'in-addr.arpa', 'ip6.arpa', 'onion', 'test', 'invalid',
  'example', 'svc', 'cluster.local',
]
for (const suffix of suffixes) {
  test(`5.2: nothing below ${suffix}`, () => {
    for (const host of [`a.${suffix}`, `a.b.${suffix}.`, suffix, `${suffix}.`.toUpperCase()]) {
      expect([host, outcome(`http://${host}/`)]).toEqual([host, 'target_not_allowed name'])
    }
  })
}

test('M5#1: a catalogue entry may name one more port', () => {
  expect(outcome('http://relay.example.com:9000/', 9000)).toContain('9000 plain name')
  expect(outcome('http://relay.example.com:9001/', 9000)).toBe('target_not_allowed port')
  expect(outcome('http://127.0.0.1:9000/', 9000)).toBe('target_not_allowed own')
})

test('5.4: EGRESS_DENY counts for literal addresses', () => {
  const deny = [parseRange('8.8.8.8') ?? expect.fail()]
  const verdict = checkUrl('http://8.8.8.8/', { ...policy, addresses: { ...policy.addresses, deny } }, [])
  expect(verdict).toEqual({ refusal: { code: 'target_not_allowed', reason: 'denied_range' } })
})

test('5: a suffix matches whole labels', () => {
  const list = new Set(['b.c'])
  expect(['b.c', 'a.b.c', 'xb.c', 'c', ''].map((host) => hasSuffix(host, list))).toEqual([
    true,
    true,
    false,
    false,
    false,
  ])
})
