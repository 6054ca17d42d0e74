/** The table of networks: lookups at the edges of ranges, a missing file, malformed files. */
import { spawnSync } from 'node:child_process'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { gzipSync } from 'node:zlib'
import fc from 'fast-check'
import { beforeAll, describe, expect, test } from 'vitest'
import type { AsnTable } from '../../../monitor/probe/asn.ts'
import { loadAsnTable, openAsnTable } from '../../../monitor/probe/asn.ts'
import { size } from '../../helpers/size.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const ROWS = `1.0.0.0\t1.0.0.255\t13335\tUS\tCLOUDFLARENET
1.0.1.0\t1.0.3.255\t0\tNone\tNot routed
1.0.4.0\t1.0.7.255\t38803\tAU\tGTELECOM-AUSTRALIA\u202e
223.255.255.0\t255.255.255.255\t64500\tNone\t
2400:cb00::\t2400:cb00:ffff:ffff:ffff:ffff:ffff:ffff\t13335\tUS\tCLOUDFLARENET
2606:4700::\t2606:4700::ffff\t64501\tDE\tSMALL
`
const folder = makeTemporaryFolder()
let table: AsnTable

const load = async (name: string, text: string, pack = gzipSync) => {
  const path = join(folder, name)
  await writeFile(path, name.endsWith('.gz') ? pack(text) : text)
  return loadAsnTable(path)
}
beforeAll(async () => {
  table = await load('good.tsv.gz', ROWS)
})

const nothing = { number: null, name: null, country: null }
const cloudflare = { number: 13335, name: 'CLOUDFLARENET', country: 'US' }
// biome-ignore format: the columns are the specification
const cases: [string, object][] = [
  ['0.255.255.255',          nothing],
  ['1.0.0.0',                cloudflare],
  ['1.0.0.255',              cloudflare],
  ['1.0.1.0',                nothing], // number 0: not routed
  ['1.0.4.0',                { number: 38803, name: 'GTELECOM-AUSTRALIA', country: 'AU' }],
  ['1.0.8.0',                nothing],
  ['255.255.255.255',        { number: 64500, name: null, country: null }],
  ['2400:cb00::1',           cloudflare],
  ['2400:caff:ffff::',       nothing],
  ['2606:4700::ffff',        { number: 64501, name: 'SMALL', country: 'DE' }],
  ['2606:4700::1:0',         nothing],
  ['::ffff:1.0.0.1',         nothing],
  ['',                       nothing],
  ['relay.example.org',      nothing],
]
for (const [address, facts] of cases) {
  test(`M6.2#7: the network of "${address}"`, () => expect(table.find(address)).toEqual(facts))
}

test('M6.2#7: without a file there are no facts', async () => {
  const none = await loadAsnTable(join(folder, 'absent.tsv.gz'))
  expect(none.find('1.0.0.0')).toEqual(nothing)
})

test('6.2: an uncompressed file is read too', async () => {
  expect((await load('plain.tsv', ROWS)).find('1.0.0.0')).toEqual(cloudflare)
})

// biome-ignore format: the columns are the specification
const broken: [string, string, RegExp][] = [
  ['order.tsv',  '1.0.1.0\t1.0.1.9\t1\tUS\tA\n1.0.1.9\t1.0.1.20\t2\tUS\tB\n', /order\.tsv:2: out of order\. Download .* \[ASN_DB\]/],
  ['turned.tsv', '1.0.1.9\t1.0.1.0\t1\tUS\tA\n',                             /turned\.tsv:1: out of order/],
  ['mixed.tsv',  '1.0.1.0\t::1\t1\tUS\tA\n',                                 /mixed\.tsv:1: not a row of ip2asn/],
  ['html.tsv',   '<!doctype html>\n',                                        /html\.tsv:1: not a row of ip2asn/],
  ['line.tsv',   `${ROWS}${'x'.repeat(1_001)}\n`,                            /line\.tsv:7: is longer than the 1000 characters of a row\. .*\[ASN_DB\]/],
  ['long.tsv.gz', 'x'.repeat(2 ** 24),                                       /long\.tsv\.gz:1: is longer/],
]
for (const [name, text, message] of broken) {
  test(`6.2: ${name} says where it is broken`, () => expect(load(name, text)).rejects.toThrow(message))
}
test('6.2: the first bytes tell whether it is compressed, not the name', async () => {
  const unpacked = await load('unpacked.tsv.gz', ROWS, (text) => Buffer.from(text as string))
  expect(unpacked.find('1.0.0.0')).toEqual(cloudflare)
  await writeFile(join(folder, 'packed.tsv'), gzipSync(ROWS))
  expect(await loadAsnTable(join(folder, 'packed.tsv'))).toMatchObject({ rangesCount: 5 })
})
test('6.2: a truncated file is an error', () =>
  expect(load('cut.tsv.gz', ROWS, (text) => gzipSync(text).subarray(0, 60))).rejects.toThrow(
    /cut\.tsv\.gz(:\d+)?: unexpected end of file\. .*ASN_DB/,
  ))

test('6.2: an endless line is one error', async () => {
  const path = join(folder, 'endless.tsv.gz')
  const piece = gzipSync(Buffer.alloc(2 ** 25, 'x')) // members of a gzip file are read one after the other
  await writeFile(path, Buffer.concat(Array.from({ length: 17 }, () => piece))) // more than a string can hold
  await expect(loadAsnTable(path)).rejects.toThrow(/endless\.tsv\.gz:1: is longer than .* \[ASN_DB\]/)
})

describe('6.2: bounds of the whole file', () => {
  // The bounds of the product in the long form, smaller ones otherwise.
  const bounds = size({ small: { linesMax: 40_000, textCharsMax: 2 ** 24 }, full: undefined })
  const { linesMax, textCharsMax } = bounds ?? { linesMax: 4_000_000, textCharsMax: 2 ** 28 }

  test('lines, empty ones included', async () => {
    const path = join(folder, 'lines.tsv.gz')
    await writeFile(path, gzipSync('\n'.repeat(linesMax + 1)))
    const message = `lines.tsv.gz:${linesMax + 1}: has too many lines`
    await expect(loadAsnTable(path, path, bounds)).rejects.toThrow(message)
  })

  test('characters, also of rows that are not routed', async () => {
    const row = `1.0.0.0\t1.0.0.255\t0\tNone\t${'x'.repeat(900)}\n`
    const piece = gzipSync(row.repeat(2 ** 11))
    const path = join(folder, 'bomb.tsv.gz')
    const piecesCount = Math.ceil(textCharsMax / (row.length * 2 ** 11)) + 1
    await writeFile(path, Buffer.concat(Array.from({ length: piecesCount }, () => piece)))
    const message = `the text has more than ${textCharsMax} characters, unpacked.`
    await expect(loadAsnTable(path, path, bounds)).rejects.toThrow(message)
  })
})

test('6.2: a pipe is refused without waiting for a writer', async () => {
  const path = join(folder, 'pipe.tsv')
  spawnSync('mkfifo', [path])
  await expect(loadAsnTable(path)).rejects.toThrow(/pipe\.tsv: is not a file\. .*\[ASN_DB\]/)
})

test('6.2: lines may end in CRLF, and the last one without a line end', async () => {
  const windows = await load('windows.tsv', ROWS.trimEnd().replaceAll('\n', '\r\n'))
  expect(windows.find('2606:4700::1')).toEqual({ number: 64501, name: 'SMALL', country: 'DE' })
})

describe('6.2: the monitor runs without the table', () => {
  const open = async (path: string): Promise<[string[], object]> => {
    const lines: string[] = []
    const asn = await openAsnTable(path, (level, text) => lines.push(`${level} ${text}`))
    return [lines, asn.find('1.0.0.0')]
  }

  test('one log line says that the file is missing, and how to install it', async () => {
    const [lines, found] = await open(join(folder, 'absent.tsv.gz'))
    expect(lines).toEqual([
      expect.stringMatching(/^warning ASN_DB: .*absent\.tsv\.gz.*sluice monitor asn install/),
    ])
    expect(found).toEqual(nothing)
  })

  test('one log line says where it is broken', async () => {
    await writeFile(join(folder, 'bad.tsv'), 'x')
    const [lines, found] = await open(join(folder, 'bad.tsv'))
    expect(lines).toEqual([expect.stringMatching(/^error .*bad\.tsv:1: not a row of ip2asn/)])
    expect(found).toEqual(nothing)
  })

  test('nothing is logged if it is valid, or ASN_DB is empty', async () => {
    await writeFile(join(folder, 'good.tsv'), ROWS)
    expect(await open(join(folder, 'good.tsv'))).toEqual([[], cloudflare])
    expect(await open('')).toEqual([[], nothing])
  })
})

test('6.2: of many ranges, the search finds what a scan finds', async () => {
  const ranges = Array.from({ length: 3_000 }, (_, i) => ({
    first: i * 1_000,
    last: i * 1_000 + (i % 999),
    number: i + 1,
  }))
  const text = (value: number) => [24, 16, 8, 0].map((shift) => (value >>> shift) & 255).join('.')
  const rows = ranges.map(({ first, last, number }) => `${text(first)}\t${text(last)}\t${number}\tUS\tN`)
  const many = await load('many.tsv.gz', rows.join('\n'))
  fc.assert(
    fc.property(fc.integer({ min: 0, max: 3_001_000 }), (value) => {
      const walked = ranges.find(({ first, last }) => first <= value && value <= last)
      expect(many.find(text(value)).number).toBe(walked?.number ?? null)
    }),
    { seed: 7, numRuns: 500 },
  )
})
