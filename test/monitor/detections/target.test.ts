/** The target key (spec 3.4), and the registrable domain that the daily limit counts (spec 4.5). */
import { expect, test } from 'vitest'
import { detectionTarget, registrableDomain } from '../../../monitor/detections/target.ts'

// biome-ignore format: a table
const keys = [
  ['https://a.example.com/',               'https://a.example.com'],
  ['https://a.example.com/v1/models/',     'https://a.example.com'],
  ['https://a.example.com/sub/v1',         'https://a.example.com/sub'],
  ['https://a.example.com/v1x',            'https://a.example.com/v1x'],
  ['https://a.example.com/V1',             'https://a.example.com/V1'],
  ['http://bücher.example.com:8080/v1?k',  'http://xn--bcher-kva.example.com:8080'],
  [`https://a.example.com/${'x'.repeat(300)}`, `https://a.example.com/${'x'.repeat(255)}`],
]
for (const [url, key] of keys) {
  test(`3.4: target key of ${url.slice(0, 40)}`, () => expect(detectionTarget(new URL(url)).key).toBe(key))
}
// biome-ignore format: a table
const domains = [
  ['a.b.example.com', 'example.com'],
  ['a.b.example.com.cn', 'example.com.cn'],
  ['[2606::1]', '[2606::1]'],
  ['a.shop.co.uk', 'shop.co.uk'],
  ['x1.abc.io', 'abc.io'],
  ['a.x.ai', 'x.ai'],
  ['a.b.city.kawasaki.jp', 'city.kawasaki.jp'], // an exception of the list
  ['a.b.c.kawasaki.jp', 'b.c.kawasaki.jp'],
  ['x.shop.xn--55qx5d.cn', 'shop.xn--55qx5d.cn'], // a suffix in punycode
  ['x.shop.unknown-top-level', 'shop.unknown-top-level'],
  ['x.one.github.io', 'one.github.io'], // a customer of a hosting service, each counted alone
  ['x.two.vercel.app', 'two.vercel.app'],
  ['x.three.workers.dev', 'three.workers.dev'],
  ['github.io', 'github.io'], // a suffix itself, an address, a single label: the host
  ['co.uk', 'co.uk'],
  ['203.0.113.7', '203.0.113.7'],
  ['relay', 'relay'],
  ['_x.a_b.example.com', 'example.com'], // underscores are in host names that are probed
] as const
for (const [host, domain] of domains) {
  test(`4.5: ${host} belongs to ${domain}`, () => expect(registrableDomain(host)).toBe(domain))
}
