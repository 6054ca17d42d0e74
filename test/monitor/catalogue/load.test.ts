import { symlinkSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { expect, test } from 'vitest'
import { toSite } from '../../../monitor/catalogue/fields.ts'
import { type LoadResult, loadCatalogue } from '../../../monitor/catalogue/load.ts'
import { size } from '../../helpers/size.ts'
import { folderWith, siteLines, toCatalogue } from './catalogues.ts'

const FULL = `
slug: example-relay
name: Example Relay
url: https://relay.example.com
api_base: https://api.relay.example.com/v1
first_seen: 2026-03-01
models_claimed: [gpt-5.4, claude-sonnet-4-6]
key_file: secrets/example-relay.key
aliases: [old-name]
regions: [overseas]
interval_s: 300
screenshot: false
flags: [closed]
hidden: true
note: free text`

test('8.1: every key of a site', () => {
  const { entries } = loaded(toCatalogue(FULL))
  expect(entries).toEqual([
    {
      slug: 'example-relay',
      name: 'Example Relay',
      url: 'https://relay.example.com',
      apiBase: 'https://api.relay.example.com',
      firstSeen: '2026-03-01',
      modelsClaimed: ['gpt-5.4', 'claude-sonnet-4-6'],
      keyFile: 'secrets/example-relay.key',
      aliases: ['old-name'],
      regions: ['overseas'],
      intervalSec: 300,
      hasScreenshot: false,
      flags: ['closed'],
      isHidden: true,
      note: 'free text',
    },
  ])
  expect(toSite(entries[0])).not.toHaveProperty('note')
})

test('8.1: optional fields of a site', () => {
  expect(loaded(toCatalogue(siteLines('one'))).entries).toMatchObject([
    {
      apiBase: 'https://one.example.com',
      firstSeen: null,
      modelsClaimed: [],
      keyFile: null,
      regions: ['cn', 'overseas'],
      intervalSec: null,
      hasScreenshot: true,
      flags: [],
      isHidden: false,
    },
  ])
})

test('8.1: anchors are allowed, and sites are sorted by slug', () => {
  const text = toCatalogue(
    siteLines('two', 'models_claimed: &m [a, b]'),
    siteLines('one', 'models_claimed: *m'),
  )
  expect(loaded(text).entries.map(({ slug, modelsClaimed }) => [slug, modelsClaimed])).toEqual([
    ['one', ['a', 'b']],
    ['two', ['a', 'b']],
  ])
})

// biome-ignore format: the columns are the specification
const mistakes: [name: string, text: string, diagnostic: string][] = [
  ['unknown key', toCatalogue(siteLines('one', 'modles_claimed: [a]')),
    'catalogue.yaml:6, site "one": there is no key "modles_claimed". Use one of slug, name,'],
  ['missing name', toCatalogue('slug: one\nurl: https://one.example.com'),
    'catalogue.yaml:3, site "one": name is missing. Write name: and its value. [KEY_MISSING]'],
  ['invisible name', toCatalogue('slug: one\nname: "a\\u202eb"\nurl: https://one.example.com'),
    'catalogue.yaml:4, site "one": name has invisible characters'],
  ['slug', toCatalogue('slug: One\nname: x\nurl: https://one.example.com'),
    'catalogue.yaml:3, site "One": slug is not a slug. Write 1 to 63 of a-z,'],
  ['number as name', toCatalogue('slug: one\nname: 7\nurl: https://one.example.com'),
    'catalogue.yaml:4, site "one": name is not a text of 1 to 80 characters. Write it in one line, in quotes,'],
  ['long name', toCatalogue(`slug: one\nname: ${'x'.repeat(81)}\nurl: https://one.example.com`), ':4, site "one": name is not a text'],
  ['user info', toCatalogue('slug: one\nname: x\nurl: https://u:p@one.example.com'),
    ':5, site "one": url is not an absolute web address. Write http:// or https://'],
  ['query', toCatalogue('slug: one\nname: x\nurl: https://one.example.com?a'), 'url has a query or a fragment.'],
  ['date', toCatalogue(siteLines('one', 'first_seen: 2026-02-30')), ':6, site "one": first_seen is not a day. Write it as 2026-03-01.'],
  ['literal key', toCatalogue(siteLines('one', 'key_file: sk-abcdefgh')), 'key_file looks like a key itself. Put the key into a file'],
  ['key file elsewhere', toCatalogue(siteLines('one', 'key_file: /etc/hostname')),
    'key_file is not a path below the catalogue\'s folder. Put the file into that folder'],
  ['key file above', toCatalogue(siteLines('one', 'key_file: a/../../.env')), 'key_file is not a path below the catalogue\'s folder.'],
  ['region', toCatalogue(siteLines('one', 'regions: [us]')), 'regions has an item that names "us". Use cn, overseas.'],
  ['no region', toCatalogue(siteLines('one', 'regions: []')), 'regions is empty.'],
  ['interval below', toCatalogue(siteLines('one', 'interval_s: 59')), 'interval_s is out of bounds. Write whole seconds from 60 to 3600.'],
  ['interval above', toCatalogue(siteLines('one', 'interval_s: 3601')), 'interval_s is out of bounds.'],
  ['no flag', toCatalogue(siteLines('one', 'hidden: no')), 'hidden is neither yes nor no. Write true or false.'],
  ['flag', toCatalogue(siteLines('one', 'flags: [bad]')), 'flags has an item that names "bad". Use scam, closed, phishing.'],
  ['item twice', toCatalogue(siteLines('one', 'models_claimed: [a, a]')), 'models_claimed has "a" twice.'],
  ['list in a list', toCatalogue(siteLines('one', 'models_claimed: [[a]]')), 'models_claimed has an item that is not a text'],
  ['slug twice', toCatalogue(siteLines('one'), siteLines('one').replace('//one', '//two')),
    'catalogue.yaml:6, site "one": slug "one" is taken by catalogue.yaml:3. Choose another'],
  ['alias of a slug', toCatalogue(siteLines('one'), siteLines('two', 'aliases: [one]')),
    'catalogue.yaml:9, site "two": alias "one" is taken by catalogue.yaml:3.'],
  ['alias twice', toCatalogue(siteLines('one', 'aliases: [x]'), siteLines('two', 'aliases: [x]')), 'alias "x" is taken by'],
  ['one target', toCatalogue(siteLines('one'), siteLines('two').replace('//two', '//ONE').replace('.com', '.com:443/v1/')),
    'catalogue.yaml:8, site "two": https://one.example.com is already probed for site "one"'],
  ['one api_base', toCatalogue(siteLines('one'), siteLines('two', 'api_base: https://one.example.com/v1')), 'is already probed for site "one"'],
  ['two more ports', toCatalogue('slug: one\nname: x\nurl: https://one.example.com:81\napi_base: https://one.example.com:82'),
    ':6, site "one": url and api_base use two unusual ports, 81 and 82.'],
  ['not YAML', 'version: 1\nsites: [\n', 'catalogue.yaml:3: the YAML is not valid'],
  ['key twice', toCatalogue(siteLines('one', 'name: again')), 'the YAML is not valid: Map keys must be unique'],
  ['tag', toCatalogue(siteLines('one', 'note: !secret x')), 'catalogue.yaml:6: the YAML is not valid: Unresolved tag: !secret'],
  ['unknown alias', toCatalogue(siteLines('one', 'note: *x')), 'catalogue.yaml:6: there is no anchor &x before this alias.'],
  ['version', 'version: 2\nsites: []\n', 'catalogue.yaml:1: version is not 1. Write `version: 1` at the top.'],
  ['no sites', 'version: 1\n', 'sites is missing.'],
  ['sites no list', 'version: 1\nsites: {}\n', 'catalogue.yaml:2: sites is not a list.'],
  ['other key', 'version: 1\nsites: []\nfoo: 1\n', 'catalogue.yaml:3: there is no key "foo" here.'],
  ['no map', '- a\n', 'catalogue.yaml:1: is not a catalogue.'],
  ['empty', '', 'catalogue.yaml:1: is not a catalogue.'],
  ['no site', 'version: 1\nsites: [a]\n', 'catalogue.yaml:2: is not a site.'],
  ['deep', `version: 1\nsites: ${'['.repeat(20_000)}`, 'the YAML is not valid'],
]

for (const [name, text, diagnostic] of mistakes) {
  test(`8.1: ${name}: the diagnostic has file, line, error and fix`, () => {
    const result = load(text)
    expect(result.kind).toBe('bad')
    expect(result.kind === 'bad' && result.diagnostics.join('\n')).toContain(diagnostic)
  })
}

test('8.1: a path is not accepted as a key', () => {
  for (const path of ['api-keys/one', 'run/secrets/sk-one', 'key_of_one.txt', './a/../key', '..key']) {
    expect(loaded(toCatalogue(siteLines('one', `key_file: ${path}`))).entries[0].keyFile).toBe(path)
  }
})

test('8.1: one more port is fine', () => {
  const text = toCatalogue(
    'slug: one\nname: x\nurl: http://one.example.com:81\napi_base: https://one.example.com:81/api',
  )
  expect(loaded(text).entries).toHaveLength(1)
})

test('8.1: a mistake in one file of a folder prevents the load, and all mistakes are reported', () => {
  const folder = folderWith(
    { 'a.yaml': toCatalogue(siteLines('one')), 'b.yaml': toCatalogue('slug: X', 'slug: two') },
    '',
  )
  const result = loadCatalogue({ path: folder })
  expect(result).toMatchObject({ kind: 'bad' })
  expect(result.kind === 'bad' && result.diagnostics.map((line) => line.split(' ')[0])).toEqual([
    ...['b.yaml:3,', 'b.yaml:3,', 'b.yaml:3,', 'b.yaml:4,', 'b.yaml:4,'],
  ])
})

test('8.1: a folder is one catalogue; files other than *.yaml are ignored', () => {
  const files = {
    'b.yaml': toCatalogue(siteLines('two')),
    'a.yaml': toCatalogue(siteLines('one')),
    'c.txt': 'x',
  }
  const folder = folderWith(files, '')
  writeFileSync(join(folder, 'optout.yaml'), 'version: 1\nhosts: [Two.Example.Com]\n')
  const result = loadCatalogue({ path: folder })
  expect(result.kind === 'loaded' && result.catalogue.entries.map(({ slug }) => slug)).toEqual(['one'])
  expect(result.kind === 'loaded' && result.catalogue.optedOutSlugs).toEqual(['two'])
  expect(result.kind === 'loaded' && result.catalogue.optOut).toEqual(new Set(['two.example.com']))
})

test('8.1: the same SHA-256 is no reload; a link that is swapped is a change', () => {
  const path = folderWith({ 'one.yaml': toCatalogue(siteLines('one')) })
  symlinkSync('one.yaml', path)
  const first = loadCatalogue({ path })
  const knownSha256 = first.kind === 'loaded' ? first.catalogue.sha256 : null
  expect(loadCatalogue({ path, knownSha256 })).toEqual({ kind: 'same' })
  writeFileSync(join(dirname(path), 'one.yaml'), toCatalogue(siteLines('two')))
  expect(loadCatalogue({ path, knownSha256 }).kind).toBe('loaded')
})

test('8.1: a missing catalogue and one that is not UTF-8', () => {
  const missing = loadCatalogue({ path: folderWith({}) })
  expect(missing.kind === 'bad' && missing.diagnostics[0]).toMatch(
    /cannot be read: ENOENT.* Create it, or set CATALOGUE_PATH\./,
  )
  const path = folderWith({})
  writeFileSync(path, Buffer.from([0xff, 0xfe, 0x00]))
  expect(loadCatalogue({ path })).toMatchObject({
    kind: 'bad',
    diagnostics: [expect.stringContaining('UTF-8')],
  })
})

test('8.1: aliases that stand for 10,000 nodes are fine, more are not', () => {
  const models = (count: number) =>
    `models_claimed: &m [${Array.from({ length: count }, (_, i) => `m${i}`).join(',')}]`
  const users = (count: number) =>
    Array.from({ length: count }, (_, i) => siteLines(`s${i}`, 'models_claimed: *m'))
  expect(loaded(toCatalogue(siteLines('one', models(999)), ...users(10))).entries).toHaveLength(11)
  expect(load(toCatalogue(siteLines('one', models(999)), ...users(11)))).toMatchObject({
    diagnostics: [expect.stringContaining('aliases stand for more than 10000 nodes.'), expect.anything()],
  })
  const laughs = `version: 1\nsites: []\na: &a [x,x,x,x,x,x,x,x,x]\n${[...'bcdefghi']
    .map((name, i) => `${name}: &${name} [${Array(9).fill(`*${'abcdefgh'[i]}`).join(',')}]\n`)
    .join('')}`
  expect(load(laughs).kind).toBe('bad')
  expect(load(`version: 1\nsites: &s [*s]\n`).kind).toBe('bad')
})

test('8.1: 5,000 sites load, 5,001 do not; 4 MiB and not more', () => {
  const many = (count: number) => toCatalogue(...Array.from({ length: count }, (_, i) => siteLines(`s${i}`)))
  const count = size({ small: 50, full: 5_000 })
  expect(loaded(many(count)).entries).toHaveLength(count)
  if (count === 5_000) {
    expect(load(many(5_001))).toMatchObject({
      diagnostics: [expect.stringContaining('there are 5001 sites.')],
    })
  }
  const big = `# ${'x'.repeat(4 * 1024 * 1024)}\n`
  expect(load(big)).toMatchObject({
    diagnostics: [expect.stringContaining('is too large. Keep at most 4194304 bytes')],
  })
})

function load(text: string): LoadResult {
  return loadCatalogue({ path: folderWith({ 'catalogue.yaml': text }) })
}

function loaded(text: string) {
  const result = load(text)
  if (result.kind !== 'loaded') throw new Error(JSON.stringify(result))
  return result.catalogue
}
