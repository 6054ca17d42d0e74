/** `sluice monitor validate, import, export, list, optout` (monitor spec 8.1, 5). */
import { spawnSync } from 'node:child_process'
import { mkdirSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { loadCatalogue } from '../../../../monitor/catalogue/load.ts'
import { applyBatch } from '../../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../../monitor/storage/catalogue-transaction.ts'
import { saveVantage } from '../../../../monitor/storage/vantages.ts'
import { siteLines, toCatalogue } from '../../../monitor/catalogue/catalogues.ts'
import { catalogueSite, NOW_SEC, probe } from '../../../monitor/storage/stores-plain.ts'
import { monitorIn } from './command.ts'

const TWO = toCatalogue(siteLines('one'), siteLines('two', 'hidden: true\nflags: [scam]'))
const OPT_OUT = 'version: 1\nhosts:\n  - example.net # since May\n'

test('8.1: validate: the number of sites, or every error with file and line', async () => {
  const monitor = monitorIn({ 'catalogue.yaml': TWO, 'optout.yaml': OPT_OUT })
  const { path } = { path: join(monitor.folder, 'catalogue.yaml') }
  expect(await monitor.run('validate')).toEqual({
    code: 0,
    out: `${path}: 2 sites, 1 hidden, 0 opted out; 1 hosts in the opt-out list. No errors.\n`,
    err: '',
  })
  const other = join(monitor.folder, 'other')
  mkdirSync(other)
  writeFileSync(join(other, 'a.yaml'), toCatalogue(siteLines('one')))
  writeFileSync(join(other, 'b.yaml'), toCatalogue(siteLines('one', 'colour: red')))
  const bad = await monitor.run('validate', 'other')
  expect({ code: bad.code, out: bad.out }).toEqual({ code: 1, out: '' })
  expect(bad.err).toMatch(
    /^b\.yaml:6, site "one": there is no key "colour"\. Use one of .*\[KEY_UNKNOWN\]\n$/,
  )
  const none = await monitor.run('validate', 'nowhere.yaml')
  expect(none.code).toBe(1)
  expect(none.err).toMatch(/^nowhere\.yaml: cannot be read: .*\[CATALOGUE_MISSING\]\n$/)
})

test('8.1: the ports of PROBE_PORTS are the usual ones, for validate and for import', async () => {
  const lines =
    'slug: odd\nname: Odd\nurl: https://odd.example.com:9001\napi_base: https://odd.example.com:9002'
  const monitor = monitorIn({
    'catalogue.yaml': toCatalogue(lines),
    'new.yaml': toCatalogue(siteLines('one')),
  })
  expect((await monitor.run('validate')).err).toContain('[PORTS_TOO_MANY]')
  monitor.env.PROBE_PORTS = '443,9001'
  expect((await monitor.run('validate')).code).toBe(0)
  expect(await monitor.run('import', 'new.yaml')).toMatchObject({ code: 0, out: '+ one\n' })
})

test('8.1: import: a dry run prints the changes, an import makes them, a second one changes nothing', async () => {
  const files = {
    'catalogue.yaml': `# mine\n${TWO}`,
    'new.csv': 'slug,name,url\nthree,Three,https://three.example.com\none,First,https://one.example.com\n',
  }
  const monitor = monitorIn(files)
  const path = join(monitor.folder, 'catalogue.yaml')
  expect(await monitor.run('import', 'new.csv', '--dry-run')).toEqual({
    code: 0,
    out: '+ three\n~ one: name\n',
    err: `1 added, 1 changed, 0 as before\nwould write ${path}\n`,
  })
  expect(monitor.read('catalogue.yaml')).toBe(files['catalogue.yaml'])
  const imported = await monitor.run('import', 'new.csv')
  expect(imported).toEqual({
    code: 0,
    out: '+ three\n~ one: name\n',
    err: `1 added, 1 changed, 0 as before\nwrote ${path}\n`,
  })
  expect(monitor.read('catalogue.yaml')).toMatch(/^# mine\n/)
  const loaded = loadCatalogue({ path })
  const names =
    loaded.kind === 'loaded' && loaded.catalogue.entries.map(({ slug, name }) => `${slug} ${name}`)
  expect(names).toEqual(['one First', 'three Three', 'two Site two'])
  expect(await monitor.run('import', 'new.csv')).toEqual({
    code: 0,
    out: '',
    err: '0 added, 0 changed, 2 as before\n',
  })
})

test('8.1: import: after an error nothing is changed', async () => {
  const files = { 'catalogue.yaml': TWO, 'new.json': '{"version": 1, "sites": [{"slug": "three"}]}' }
  const monitor = monitorIn(files)
  const { code, out, err } = await monitor.run('import', 'new.json')
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^new\.json:1, site "three": name is missing\..*\[KEY_MISSING\]\n.*url is missing/)
  expect(monitor.read('catalogue.yaml')).toBe(TWO)
  const missing = await monitor.run('import', 'nowhere.csv')
  expect(missing.code).toBe(1)
  expect(missing.err).toMatch(
    /^sluice: ENOENT: .*'nowhere\.csv'\. Check the path and its permissions\. \[FILE_UNUSABLE\]\n$/,
  )
  writeFileSync(
    join(monitor.folder, 'gbk.csv'),
    Buffer.from([...Buffer.from('slug,name,url\na,'), 0xd6, 0xd0]),
  )
  const foreign = await monitor.run('import', 'gbk.csv')
  expect(foreign.code).toBe(1)
  expect(foreign.err).toMatch(/^sluice: gbk\.csv: is not UTF-8\. Save it as UTF-8; .*\[IMPORT_ENCODING\]\n$/)
})

test('8.1: import: a file that names key files is refused; with --allow-key-files the plan shows where they go', async () => {
  const files = {
    'catalogue.yaml': TWO,
    'new.yaml': toCatalogue(siteLines('three', 'key_file: db-password')),
  }
  const monitor = monitorIn(files)
  const refused = await monitor.run('import', 'new.yaml')
  expect({ code: refused.code, out: refused.out }).toEqual({ code: 1, out: '' })
  expect(refused.err).toMatch(
    /^new\.yaml:3, site "three": the key in db-password would be sent to https:\/\/three\.example\.com\. .*\[KEY_FILE_REFUSED\]\n$/,
  )
  expect(monitor.read('catalogue.yaml')).toBe(TWO)
  const planned = await monitor.run('import', 'new.yaml', '--dry-run', '--allow-key-files')
  expect(planned).toMatchObject({
    code: 0,
    out: '+ three\n! three: the key in db-password goes to https://three.example.com\n',
  })
})

test('8.1: export: what it writes is imported as the same sites, those that opted out included', async () => {
  const hosts = 'version: 1\nhosts: [two.example.com]\n'
  const monitor = monitorIn({ 'catalogue.yaml': TWO, 'optout.yaml': hosts })
  for (const format of ['yaml', 'json', 'csv']) {
    const { code, out, err } = await monitor.run('export', '--format', format)
    expect({ code, err }).toEqual({ code: 0, err: '' })
    writeFileSync(join(monitor.folder, `again.${format}`), out)
    const again = await monitor.run('import', `again.${format}`)
    expect(again).toMatchObject({ code: 0, err: '0 added, 0 changed, 2 as before\n' })
  }
  const [byDefault, yaml] = await Promise.all([
    monitor.run('export'),
    monitor.run('export', '--format', 'yaml'),
  ])
  expect(byDefault.out).toBe(yaml.out)
})

test('8.1: list: every site of the catalogue, with its stored result', async () => {
  const files = {
    'catalogue.yaml': toCatalogue(
      siteLines('one'),
      siteLines('two', 'hidden: true\nflags: [scam]'),
      siteLines('gone'),
    ),
    'optout.yaml': 'version: 1\nhosts: [gone.example.com]\n',
  }
  const monitor = monitorIn(files)
  const before = await monitor.run('list')
  expect(before).toMatchObject({ code: 0, err: '' })
  expect(before.out).toBe(
    [
      'SLUG  TIER  SCORE  STATE  LAST PROBED  URL                       REMARKS',
      'gone  -     -      -      -            https://gone.example.com  opted out',
      'one   -     -      -      -            https://one.example.com   waits for its first probe',
      'two   -     -      -      -            https://two.example.com   hidden, scam',
      '',
    ].join('\n'),
  )
  const database = await monitor.openDatabase()
  const { ids } = syncCatalogue(database, [catalogueSite('one'), catalogueSite('former')], NOW_SEC)
  const vantageId = saveVantage(database, { name: 'main', region: 'overseas', country: null })
  const score = { tier: 'A', tierSinceSec: NOW_SEC, score: 89.66, facts: {} } as const
  for (const siteId of Object.values(ids)) {
    const writes = [
      { kind: 'probe', siteId, vantageId, probe: probe(NOW_SEC) } as const,
      { kind: 'score', siteId, ...score } as const,
    ]
    applyBatch(database, writes, NOW_SEC)
  }
  const table = (await monitor.run('list')).out.split('\n')
  expect(table).toHaveLength(5) // `former` is in the store, but not in the catalogue any more
  expect(table[2]).toBe('one   A     89.7   up     2026-11-20T17:00:00Z  https://one.example.com')
  const [, one] = JSON.parse((await monitor.run('list', '--json')).out)
  expect(one).toEqual({
    ...{ slug: 'one', name: 'Site one', url: 'https://one.example.com', tier: 'A', score: 89.7, state: 'up' },
    ...{ first_seen: '2026-11-20', last_probed: '2026-11-20T17:00:00Z' },
    ...{ published: true, hidden: false, opted_out: false, flags: [] },
  })
})

test('8.1: list prints the errors of a catalogue and no site', async () => {
  const monitor = monitorIn({ 'catalogue.yaml': 'version: 1\nsites: [\n' })
  const { code, out, err } = await monitor.run('list')
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^catalogue\.yaml:[0-9]+: the YAML is not valid: .*\[YAML_INVALID\]\n$/)
})

test('5: optout: added, listed, removed; comments stay; affected sites are printed', async () => {
  const monitor = monitorIn({ 'catalogue.yaml': TWO, 'optout.yaml': OPT_OUT })
  const path = join(monitor.folder, 'optout.yaml')
  expect(await monitor.run('optout', 'add', 'TWO.example.com.')).toEqual({
    code: 0,
    out: '',
    err: `two.example.com has opted out (${path})\nleft out: two, https://two.example.com\n`,
  })
  const again = await monitor.run('optout', 'add', 'two.example.com')
  expect(again).toMatchObject({
    code: 0,
    err: expect.stringMatching(/^two\.example\.com had already opted out\n/),
  })
  expect((await monitor.run('optout', 'list')).out).toBe('example.net\ntwo.example.com\n')
  expect(JSON.parse((await monitor.run('optout', 'list', '--json')).out)).toEqual([
    'example.net',
    'two.example.com',
  ])
  expect((await monitor.run('probe', 'two')).err).toContain(
    'must not be probed (opted out). Its operator opted out',
  )
  expect(await monitor.run('optout', 'remove', 'two.example.com')).toEqual({
    code: 0,
    out: '',
    err: `two.example.com is removed from the list (${path})\n`,
  })
  expect(monitor.read('optout.yaml')).toBe(OPT_OUT)
})

test('5: optout remove: an unknown host, and one with a listed parent', async () => {
  const monitor = monitorIn({ 'catalogue.yaml': TWO, 'optout.yaml': `${OPT_OUT}  - www.example.net\n` })
  const absent = await monitor.run('optout', 'remove', 'example.org')
  expect(absent.code).toBe(1)
  expect(absent.err).toContain('example.org is not in the list. sluice monitor optout list shows the hosts.')
  const covered = await monitor.run('optout', 'remove', 'a.example.net')
  expect(covered.code).toBe(1)
  expect(covered.err).toContain(
    'a.example.net is not in the list, but its parent example.net is. Remove example.net',
  )
  const still = await monitor.run('optout', 'remove', 'www.example.net')
  expect(still.code).toBe(0)
  expect(still.err).toContain('www.example.net is removed from the list')
  expect(still.err).toContain('but example.net still opts it out\n')
})

test('5: optout with an invalid catalogue: written, with a message that it does not apply yet', async () => {
  const monitor = monitorIn({ 'catalogue.yaml': 'version: 1\n' })
  const { code, err } = await monitor.run('optout', 'add', 'example.com')
  expect(code).toBe(1)
  expect(err).toMatch(
    /has opted out .*\nthe change takes effect once these errors of the catalogue are fixed:\ncatalogue\.yaml:1: /,
  )
  expect((await monitor.run('optout', 'list')).out).toBe('example.com\n')
})

test('5: optout does not change an invalid list', async () => {
  const broken = 'version: 1\nhosts: [a b]\n'
  const monitor = monitorIn({ 'catalogue.yaml': TWO, 'optout.yaml': broken })
  const { code, err } = await monitor.run('optout', 'add', 'example.com')
  expect(code).toBe(1)
  expect(err).toMatch(/^optout\.yaml:2: is not a host\..*\[HOST_INVALID\]\n$/)
  expect(monitor.read('optout.yaml')).toBe(broken)
})

test('8.1: as a process: a disk that takes only a part of a file is an error, and the file is unchanged', () => {
  const optOut = `version: 1\nhosts:\n${Array.from({ length: 1_000 }, (_, i) => `  - host-${i}.example.com\n`).join('')}`
  const sites = Array.from({ length: 200 }, (_, i) => siteLines(`site-${i}`))
  const monitor = monitorIn({
    'catalogue.yaml': toCatalogue(...sites),
    'optout.yaml': optOut,
    'new.csv': 'slug,name,url\nnew,New,https://new.example.com\n',
  })
  const run = (command: string) => {
    const script = `ulimit -f 8; exec "$0" "$1" monitor ${command}` // blocks of 512 bytes, of any file
    const sluice = fileURLToPath(new URL('../../../../scripts/sluice.ts', import.meta.url))
    const options = { cwd: monitor.folder, env: monitor.env, encoding: 'utf8', stdio: 'pipe' } as const
    return spawnSync('sh', ['-c', script, process.execPath, sluice], options)
  }
  for (const [command, file] of [
    ['optout add new.example.org', 'optout.yaml'],
    ['import new.csv', 'catalogue.yaml'],
  ]) {
    const before = monitor.read(file)
    const { status, stderr } = run(command)
    expect({ status, stderr }).toEqual({
      status: 1,
      stderr: expect.stringMatching(
        new RegExp(
          `^sluice: .*${file}: cannot be written: EFBIG.* It is unchanged\\. Check the free space.*\\[FILE_NOT_WRITTEN\\]\n$`,
        ),
      ),
    })
    expect(monitor.read(file)).toBe(before)
  }
  expect(readdirSync(monitor.folder).filter((file) => file.endsWith('.partial'))).toEqual([])
  const exported = run('export > out.yaml')
  expect([exported.status, exported.stderr]).toEqual([
    1,
    expect.stringMatching(/^sluice: EFBIG.*\[FILE_UNUSABLE\]\n$/),
  ])
})
