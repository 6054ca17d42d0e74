import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { readCsv } from '../../../monitor/catalogue/csv.ts'
import { type CatalogueEntry, Diagnostics } from '../../../monitor/catalogue/entry.ts'
import { parseEntry } from '../../../monitor/catalogue/fields.ts'
import { loadCatalogue } from '../../../monitor/catalogue/load.ts'
import { detectFormat, exportSites, type Format, importSites } from '../../../monitor/catalogue/transfer.ts'
import { readYaml } from '../../../monitor/catalogue/yaml.ts'
import { size } from '../../helpers/size.ts'
import { folderWith, siteLines, toCatalogue } from './catalogues.ts'

const CSV = `slug,name,url,models_claimed,hidden\r
one,"Relay, ""One""",https://one.example.com,gpt-5.4; claude-sonnet-4-6,true\r
new,New,https://new.example.com,,\r
`

test('8.1: an import adds, changes what it names, leaves the rest and the comments', () => {
  const before = `# ours\n${toCatalogue(siteLines('one', 'interval_s: 120 # asked for'), siteLines('two'))}`
  const path = folderWith({ 'catalogue.yaml': before })
  const options = { cataloguePath: path, name: 'in.csv', text: CSV, format: 'csv' } as const
  const plan = importSites({ ...options, isDryRun: true })
  expect(plan).toEqual({
    added: ['new'],
    changed: [{ slug: 'one', keys: ['name', 'models_claimed', 'hidden'] }],
    unchanged: [],
    keys: [],
    diagnostics: [],
    writtenFiles: [path],
  })
  expect(readFileSync(path, 'utf8')).toBe(before)

  expect(importSites({ ...options, isDryRun: false })).toEqual(plan)
  const after = readFileSync(path, 'utf8')
  expect(after).toContain('# ours\n')
  expect(after).toContain('interval_s: 120 # asked for')
  expect(loadedFrom(path)).toMatchObject([
    { slug: 'new', name: 'New', isHidden: false },
    {
      slug: 'one',
      name: 'Relay, "One"',
      modelsClaimed: ['gpt-5.4', 'claude-sonnet-4-6'],
      intervalSec: 120,
      isHidden: true,
    },
    { slug: 'two' },
  ])
  expect(importSites({ ...options, isDryRun: false })).toMatchObject({
    added: [],
    changed: [],
    writtenFiles: [],
  })
})

test('8.1: an import into nothing, and into a folder', () => {
  const options = {
    name: 'in.json',
    text: '[{"slug":"one","name":"One","url":"https://one.example.com"}]',
    format: 'json',
    isDryRun: false,
  } as const
  const path = folderWith({})
  expect(importSites({ ...options, cataloguePath: path })).toMatchObject({ added: ['one'], diagnostics: [] })
  expect(readFileSync(path, 'utf8')).toBe(
    'version: 1\nsites:\n  - slug: one\n    name: One\n    url: https://one.example.com\n',
  )

  const folder = folderWith({ 'a.yaml': toCatalogue(siteLines('two')) }, '')
  expect(importSites({ ...options, cataloguePath: folder })).toMatchObject({
    added: ['one'],
    writtenFiles: [join(folder, 'imported.yaml')],
  })
  expect(loadedFrom(folder).map(({ slug }) => slug)).toEqual(['one', 'two'])
})

// biome-ignore format: the columns are the specification
const mistakes: [format: Format, text: string, diagnostic: string][] = [
  ['csv',  'slug,name,url\none,One,nowhere\n',            'in:2, site "one": url is not an absolute web address.'],
  ['csv',  'slug,name,url\n"a\nb",x,https://b.example\n,One,https://a.example\n', 'in:4: slug is missing.'],
  ['csv',  'slug,name,url\none,One\n',                    'in:2: has 2 cells instead of 3. Put quotes around cells with commas.'],
  ['csv',  'slug,name,url\none,"One,https://a.example\n', 'in: a quote is not closed.'],
  ['csv',  'slug,nom\none,x\n',                           'in:2, site "one": there is no key "nom".'],
  ['csv',  '',                                            'in:1: is empty. Begin with a line of keys: slug,name,url'],
  ['csv',  'slug,name,url\none,A,https://a.example\none,B,https://b.example\n', 'in:3, site "one": slug "one" is in line 2 already.'],
  ['json', '[{"slug":"one"',                              'in:1: the YAML is not valid'],
  ['json', '{"version":1,"sites":[{"slug":"one","name":"One","url":7}]}', 'in:1, site "one": url is not an absolute'],
  ['yaml', toCatalogue(siteLines('x', 'url: https://two.example.com').replace(/url.*\n/, '')), 'https://two.example.com is already probed for site "two"'],
]

for (const [format, text, diagnostic] of mistakes) {
  test(`8.1: import of ${format} ${JSON.stringify(text).slice(0, 60)}: an error with its line, and nothing is written`, () => {
    const path = folderWith({ 'catalogue.yaml': toCatalogue(siteLines('two')) })
    const plan = importSites({ cataloguePath: path, name: 'in', text, format, isDryRun: false })
    expect(plan.diagnostics.join('\n')).toContain(diagnostic)
    expect(readFileSync(path, 'utf8')).toBe(toCatalogue(siteLines('two')))
  })
}

test('8.1: an import moves no key to another host unless that is allowed, and reports each move', () => {
  const before = toCatalogue(siteLines('one', 'key_file: secrets/one.key'), siteLines('two'))
  const path = folderWith({ 'catalogue.yaml': before })
  const run = (text: string, more: object = {}) =>
    importSites({ cataloguePath: path, name: 'in.yaml', text, format: 'yaml', isDryRun: true, ...more })
  const renamed = 'slug: one\nname: One\nurl: https://elsewhere.example.com'
  const cases = [
    [siteLines('new', 'key_file: db-password'), 'new', 'db-password', 'https://new.example.com'],
    [siteLines('two', 'key_file: secrets/one.key'), 'two', 'secrets/one.key', 'https://two.example.com'],
    [siteLines('one', 'key_file: .env'), 'one', '.env', 'https://one.example.com'],
    [renamed, 'one', 'secrets/one.key', 'https://elsewhere.example.com'],
    [
      siteLines('one', 'api_base: https://api.example.com'),
      'one',
      'secrets/one.key',
      'https://api.example.com',
    ],
  ]
  for (const [lines, slug, keyFile, apiBase] of cases) {
    const refused = run(toCatalogue(lines), { isDryRun: false })
    expect(refused.diagnostics).toEqual([
      expect.stringMatching(
        /^in\.yaml:3, site "[a-z]+": the key in .* would be sent to .*--allow-key-files.*\[KEY_FILE_REFUSED\]$/,
      ),
    ])
    expect(refused.diagnostics[0]).toContain(`the key in ${keyFile} would be sent to ${apiBase}.`)
    expect(readFileSync(path, 'utf8')).toBe(before)
    const allowed = run(toCatalogue(lines), { areKeyFilesAllowed: true })
    expect([allowed.diagnostics, allowed.keys]).toEqual([[], [{ slug, keyFile, apiBase }]])
  }
  const untouched = run(toCatalogue(siteLines('one', 'key_file: secrets/one.key\nnote: x'), siteLines('two')))
  expect([untouched.diagnostics, untouched.keys]).toEqual([[], []])
})

const anyText = fc.stringMatching(/^[a-zA-Z0-9,;"'\\:#é中=+@＝-]{1,20}$/)
const notes = fc.stringMatching(/^[a,;"'=+@ \t\n-]{1,20}$/)
const entries = fc.uniqueArray(
  fc.record({
    slug: fc.stringMatching(/^[a-z]([a-z0-9-]{0,8}[a-z0-9])?$/),
    name: anyText,
    models: fc.uniqueArray(anyText, { maxLength: 4 }),
    note: notes,
    isHidden: fc.boolean(),
    interval: fc.option(fc.integer({ min: 60, max: 3600 })),
  }),
  { selector: ({ slug }) => slug, maxLength: 5 },
)

for (const format of ['csv', 'json', 'yaml'] as const) {
  test(`8.1: what is exported as ${format} is read again as it was`, () => {
    fc.assert(
      fc.property(entries, (records) => {
        const sites = records.map(
          ({ slug, name, models, note, isHidden, interval }): CatalogueEntry => ({
            ...{
              slug,
              name,
              url: `https://${slug}.example.com/x`,
              apiBase: `https://api-${slug}.example.com`,
            },
            ...{
              firstSeen: '2026-03-01',
              modelsClaimed: models,
              keyFile: null,
            },
            ...{
              aliases: [],
              regions: ['cn'],
              intervalSec: interval,
              hasScreenshot: true,
              flags: ['scam'],
              isHidden,
              note,
            },
          }),
        )
        const diagnostics = new Diagnostics()
        const text = exportSites(sites, format)
        const raws =
          format === 'csv' ? readCsv('x', text, diagnostics) : readYaml('x', text, diagnostics).sites
        const read = raws.map((raw) => parseEntry(raw, diagnostics))
        expect(diagnostics.lines()).toEqual([])
        expect(read).toEqual(sites)
      }),
      { numRuns: size({ small: 100, full: 5_000 }) },
    )
  })
}

test('8.1: no cell of an exported CSV is a formula, for any separator of a spreadsheet', () => {
  const formulas = ['=HYPERLINK("https://x.example")', '+1', '-1', '@SUM(A1)', '＝1', "'=1", '\t=1']
  formulas.push('x;"=1+1;y', '"=HYPERLINK(1)', '""=1', 'x; =1', `x;" '=1`, '\u3000=1', `x;"'"+1`)
  for (const formula of formulas) {
    const [more] = fullEntries(formula)
    const text = exportSites([more], 'csv')
    for (const separator of [',', ';', '\t']) {
      for (const cell of text.split(/[\r\n]/).flatMap((line) => line.split(separator)))
        expect(cell).not.toMatch(/^["\s]*[=+\-@＝＋－＠]/)
    }
    expect(text.replaceAll(/[\s\u00a0"]/g, '')).not.toMatch(/[,;][=+\-@＝＋－＠]/)
    const diagnostics = new Diagnostics()
    const read = readCsv('x', text, diagnostics).map((raw) => parseEntry(raw, diagnostics))
    expect([diagnostics.lines(), read]).toEqual([[], [more]])
  }
  const plain = exportSites(fullEntries('a-b'), 'csv')
  expect(plain).toContain('one,a-b,https://one.example.com,,2026-03-01,a-b;x;a-b2,')
})

function fullEntries(text: string): CatalogueEntry[] {
  const name = text.trim()
  return [
    {
      ...{ slug: 'one', name, url: 'https://one.example.com', apiBase: 'https://one.example.com' },
      ...{ firstSeen: '2026-03-01', modelsClaimed: [name, 'x', `${name}2`], keyFile: null, aliases: [] },
      ...{ regions: ['cn'], intervalSec: null, hasScreenshot: true, flags: [], isHidden: false },
      note: `${text}\n${text};${text}`,
    },
  ]
}

test('8.1: the extension of the file name decides the format', () => {
  expect(['a.csv', 'a.JSON', 'a.yaml', 'a.yml', 'a.txt', 'a'].map(detectFormat)).toEqual([
    'csv',
    'json',
    'yaml',
    'yaml',
    null,
    null,
  ])
})

function loadedFrom(path: string): CatalogueEntry[] {
  const result = loadCatalogue({ path })
  if (result.kind !== 'loaded') throw new Error(JSON.stringify(result))
  return result.catalogue.entries
}
