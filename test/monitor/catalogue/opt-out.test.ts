import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { Diagnostics } from '../../../monitor/catalogue/entry.ts'
import { addOptOut, parseHost, readOptOut, removeOptOut } from '../../../monitor/catalogue/opt-out.ts'
import { hasSuffix } from '../../../monitor/egress/url-policy.ts'
import { folderWith } from './catalogues.ts'

// biome-ignore format: the columns are the specification
const cases = [
  // opted out      host                  refused
  ['example.com',   'example.com',        true],
  ['example.com',   'www.example.com',    true],
  ['example.com',   'anexample.com',      false],
  ['example.com',   'example.com.evil',   false],
  ['www.example.com', 'example.com',      false],
  ['*.example.com', 'a.b.example.com',    true],
  ['EXAMPLE.com.',  'example.com',        true],
  ['例え.jp',        'xn--r8jz45g.jp',     true],
  ['203.0.113.7',   '203.0.113.7',        true],
] as const

for (const [entry, host, isRefused] of cases) {
  test(`5: ${entry} opted out: ${host} is ${isRefused ? '' : 'not '}refused`, () => {
    const hosts = readOptOut('optout.yaml', `version: 1\nhosts: ["${entry}"]\n`, new Diagnostics())
    expect(hasSuffix(host, hosts)).toBe(isRefused)
  })
}

// biome-ignore format: one line each
const mistakes = [
  ['version: 1\nhosts: [https://example.com]\n', 'optout.yaml:2: is not a host. Write a name such as example.com'],
  ['version: 1\nhosts:\n  - a.example\n  - a b\n', 'optout.yaml:4: is not a host.'],
  ['hosts: []\n', 'optout.yaml:1: is not a list of hosts. Begin with `version: 1` and `hosts:`.'],
  ['version: 1\nhosts: [\n', 'the YAML is not valid'],
] as const

for (const [text, diagnostic] of mistakes) {
  test(`5: ${JSON.stringify(text)} is an error`, () => {
    const diagnostics = new Diagnostics()
    readOptOut('optout.yaml', text, diagnostics)
    expect(diagnostics.lines().join('\n')).toContain(diagnostic)
  })
}

test('8.1: optout add and remove keep the comments', () => {
  const path = folderWith(
    { 'o.yaml': '# by mail\nversion: 1\nhosts:\n  - a.example # asked in May\n' },
    'o.yaml',
  )
  expect(addOptOut(path, 'b.example')).toBe(true)
  expect(addOptOut(path, 'b.example')).toBe(false)
  expect(readFileSync(path, 'utf8')).toBe(
    '# by mail\nversion: 1\nhosts:\n  - a.example # asked in May\n  - b.example\n',
  )
  expect(removeOptOut(path, 'b.example')).toBe(true)
  expect(removeOptOut(path, 'b.example')).toBe(false)
  const fresh = folderWith({}, 'new.yaml')
  expect(addOptOut(fresh, parseHost('B.Example')!)).toBe(true)
  expect(readOptOut(fresh, readFileSync(fresh, 'utf8'), new Diagnostics())).toEqual(new Set(['b.example']))
})
