import { expect, test } from 'vitest'
import { toTargetKey } from '../../../monitor/catalogue/target-key.ts'

// biome-ignore format: the columns are the specification
const cases = [
  ['https://relay.example.com',                  'https://relay.example.com'],
  ['HTTPS://Relay.EXAMPLE.com/',                 'https://relay.example.com'],
  ['https://relay.example.com:443',              'https://relay.example.com'],
  ['http://relay.example.com:443',               'http://relay.example.com:443'],
  ['http://relay.example.com:80/',               'http://relay.example.com'],
  ['https://relay.example.com./x',               'https://relay.example.com/x'],
  ['https://relay.example.com/?a=b#c',           'https://relay.example.com'],
  ['https://relay.example.com/v1',               'https://relay.example.com'],
  ['https://relay.example.com/v1/',              'https://relay.example.com'],
  ['https://relay.example.com/api/v1/models',    'https://relay.example.com/api'],
  ['https://relay.example.com/v1/models/',       'https://relay.example.com'],
  ['https://relay.example.com/xv1',              'https://relay.example.com/xv1'],
  ['https://例え.jp',                             'https://xn--r8jz45g.jp'],
  ['http://0x7f.1:8080',                         'http://127.0.0.1:8080'],
  [`https://a.example/${'x'.repeat(255)}`,       `https://a.example/${'x'.repeat(255)}`],
  [`https://a.example/${'x'.repeat(256)}`,       null],
  ['https://user@relay.example.com',             null],
  ['https://relay.example.com:0',                null],
  ['ftp://relay.example.com',                    null],
  ['relay.example.com',                          null],
  ['',                                           null],
] as const

for (const [text, key] of cases) {
  test(`3.4: the target of ${text.slice(0, 50)} is ${key?.slice(0, 50)}`, () =>
    expect(toTargetKey(text)).toBe(key))
}
