/** Long cells and the guard against formulas; other cases of CSV are in transfer.test.ts. */
import { describe, expect, test } from 'vitest'
import { readCsv } from '../../../monitor/catalogue/csv.ts'
import { Diagnostics } from '../../../monitor/catalogue/entry.ts'
import { exportSites } from '../../../monitor/catalogue/transfer.ts'

function read(text: string) {
  const diagnostics = new Diagnostics()
  const sites = readCsv('x', text, diagnostics)
  return { values: sites.map(({ fields }) => fields.get('note')?.value), diagnostics: diagnostics.lines() }
}

describe('8.1: long cells', () => {
  const LONG = 16 * 1024 * 1024
  // biome-ignore format: the columns are the specification
  const cells = [
    ['quoted',                `"${'a'.repeat(LONG)}"`],
    ['quoted, of quotes',     `"${'""'.repeat(LONG / 2)}"`],
    ['quoted, of line ends',  `"${'\n'.repeat(LONG)}"`],
    ['plain',                 'a'.repeat(LONG)],
  ] as const
  for (const [name, cell] of cells) {
    test(`${name}: a diagnostic with its line, and other rows are read`, () => {
      const { values, diagnostics } = read(`note\nfirst\n${cell}\nlast\n`)
      expect(values).toEqual(['first', 'last'])
      expect(diagnostics).toEqual([
        expect.stringMatching(/^x:3: has a cell of \d+ characters\. Keep at most 1048576\./),
      ])
    })
  }

  test('a quote that is not closed, after which much follows', () => {
    expect(read(`note\n"${'a'.repeat(LONG)}`).diagnostics).toEqual([
      expect.stringContaining('a quote is not closed.'),
    ])
  })

  test('the longest allowed cell', () => {
    const text = 'a'.repeat(1_048_576)
    expect(read(`note\n"${text}"\n`)).toEqual({ values: [text], diagnostics: [] })
  })
})

describe('8.1: rows and lines', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // text                        notes
    ['note\na',                    ['a']],
    ['note\r\na\r\n',              ['a']],
    ['note,slug\na,',              ['a']],
    ['note,slug\n,b\n',            [undefined]],
    ['note\n"a\r\nb"\nc\n',        ['a\r\nb', 'c']],
    ['note\n"a""b"',               ['a"b']],
    ['note\n""\nb',                ['b']],
    ['note\n\nb',                  ['b']],
  ] as const
  for (const [text, notes] of cases)
    test(JSON.stringify(text), () => expect(read(text)).toEqual({ values: notes, diagnostics: [] }))

  for (const text of ['note\n"a"b\n', 'note\na\rb\n', 'note\n"a\n'])
    test(`${JSON.stringify(text)} is refused`, () => expect(read(text).diagnostics).toHaveLength(1))
})

describe('8.1: formulas', () => {
  const BLANKS = [
    0x20, 0x00, 0x0b, 0x1f, 0x7f, 0x85, 0xa0, 0xad, 0x34f, 0x1680, 0x180e, 0x2000, 0x2003, 0x200b, 0x200d,
    0x200e,
  ]
  BLANKS.push(0x2028, 0x202f, 0x205f, 0x2060, 0x2066, 0x3000, 0x3164, 0xfe0f, 0xfeff, 0xffa0, 0xe0001)
  for (const codePoint of BLANKS) {
    const blank = String.fromCodePoint(codePoint)
    test(`a sign behind U+${codePoint.toString(16).toUpperCase().padStart(4, '0')} is quoted, and read as it was`, () => {
      for (const note of [`${blank}=1+1`, `x;${blank}${blank}@a`, `x\n"${blank}＋1`]) {
        const entry = {
          ...{ slug: 'one', name: 'One', url: 'https://one.example.com', apiBase: 'https://one.example.com' },
          ...{
            firstSeen: null,
            modelsClaimed: [],
            keyFile: null,
            aliases: [],
            regions: ['cn'],
            intervalSec: null,
          },
          ...{ hasScreenshot: true, flags: [], isHidden: false, note },
        }
        const text = exportSites([entry as never], 'csv')
        expect(text).toMatch(/'[=@＋]/)
        expect(read(text)).toEqual({ values: [note], diagnostics: [] })
      }
    })
  }
})
