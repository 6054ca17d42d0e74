/** `sluice monitor asn install`: a valid table replaces the old one atomically. */
import { spawnSync } from 'node:child_process'
import { chmodSync, existsSync, readdirSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { gunzipSync, gzipSync } from 'node:zlib'
import { describe, expect, test } from 'vitest'
import { monitorIn } from './command.ts'

const ROWS = '1.0.0.0\t1.0.0.255\t13335\tUS\tCLOUDFLARENET\n2606:4700::\t2606:4700::ffff\t64501\tDE\tSMALL\n'
const ASN_DB = join('tables', 'asn.tsv.gz')

function createMonitor(files: Record<string, string> = {}) {
  const monitor = monitorIn(files, { ASN_DB })
  const target = join(monitor.folder, ASN_DB)
  const listTables = () => (existsSync(target) ? readdirSync(join(monitor.folder, 'tables')) : [])
  return { monitor, target, listTables }
}

describe('6.2: asn install', () => {
  test('creates the folder, installs a compressed file and prints its number of ranges', async () => {
    const { monitor, target, listTables } = createMonitor()
    writeFileSync(join(monitor.folder, 'new.gz'), gzipSync(ROWS))
    const { code, out, err } = await monitor.run('asn', 'install', 'new.gz')
    expect([code, out]).toEqual([0, ''])
    expect(err).toMatch(
      /^installed 2 ranges as tables\/asn\.tsv\.gz; .*\nwarning: the whole table has more than 100000/,
    )
    expect(gunzipSync(readFileSync(target)).toString()).toBe(ROWS)
    expect(listTables()).toEqual(['asn.tsv.gz'])
  })

  test('an invalid, empty or missing file leaves the old table as it is, and no other file', async () => {
    const { monitor, target, listTables } = createMonitor({
      'good.tsv': ROWS,
      'page.tsv': '<!doctype html>\n',
      'empty.tsv': '',
    })
    writeFileSync(join(monitor.folder, 'line.gz'), gzipSync('x'.repeat(2 ** 24)))
    spawnSync('mkfifo', [join(monitor.folder, 'pipe')])
    expect((await monitor.run('asn', 'install', 'good.tsv')).code).toBe(0)
    for (const [file, reason] of [
      ['page.tsv', /page\.tsv:1: not a row of ip2asn\. Download the file again.* \[ASN_DB\]\n$/],
      ['empty.tsv', /empty\.tsv: has no ranges\. .* \[ASN_DB\]\n$/],
      ['line.gz', /line\.gz:1: is longer than the 1000 characters of a row\. .* \[ASN_DB\]\n$/],
      ['pipe', /pipe: is not a file\. .* \[ASN_DB\]\n$/],
      ['none.tsv', /none\.tsv: there is no such file\. Fetch https:\/\/iptoasn\.com\/.* \[ASN_DB\]\n$/],
    ] as const) {
      const { code, err } = await monitor.run('asn', 'install', file)
      expect([code, err]).toEqual([1, expect.stringMatching(reason)])
    }
    expect(readFileSync(target, 'utf8')).toBe(ROWS)
    expect(listTables()).toEqual(['asn.tsv.gz'])
  })

  test('the mode of the source does not matter: all may read a new table, an old one keeps its mode', async () => {
    const { monitor, target } = createMonitor({ 'new.tsv': ROWS })
    const mode = () => (statSync(target).mode & 0o777).toString(8)
    for (const sourceMode of [0o600, 0o444]) {
      chmodSync(join(monitor.folder, 'new.tsv'), sourceMode)
      expect((await monitor.run('asn', 'install', 'new.tsv')).code).toBe(0)
      expect(mode()).toBe((0o644 & ~process.umask()).toString(8))
    }
    chmodSync(target, 0o640)
    expect((await monitor.run('asn', 'install', 'new.tsv')).code).toBe(0)
    expect(mode()).toBe('640')
  })

  test('an empty ASN_DB is refused', async () => {
    const monitor = monitorIn({ 'new.tsv': ROWS }, { ASN_DB: '' })
    const { code, err } = await monitor.run('asn', 'install', 'new.tsv')
    expect([code, err]).toEqual([
      1,
      'sluice: ASN_DB is empty and names no file. Set ASN_DB to a path, or unset it for its default, ' +
        'data/ip2asn-combined.tsv.gz. [ASN_DB]\n',
    ])
    expect(readdirSync(monitor.folder)).toEqual(['new.tsv'])
  })

  test('without a file it prints its usage', async () => {
    const { monitor } = createMonitor()
    const { code, err } = await monitor.run('asn', 'install')
    expect([code, err]).toEqual([2, expect.stringContaining('usage: sluice monitor asn install <file>')])
  })
})
