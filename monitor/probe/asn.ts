/**
 * The autonomous system of an address (spec 6.2), from the public-domain file ip2asn-combined.tsv.gz; nothing is requested
 * over the network.
 *
 *     first ⇥ last ⇥ number ⇥ country ⇥ name     about 600,000 rows ─► three typed arrays per family, about 20 MiB
 *     find('104.16.0.1')  ─► { number: 13335, name: 'CLOUDFLARENET', country: 'US' }     a binary search, 20 steps
 *
 * Addresses are rows of 32-bit words, one for IPv4 and four for IPv6, so one search serves both. Without the file every
 * member is null. `sluice monitor asn install` installs it.
 */
import { createReadStream } from 'node:fs'
import { open, stat } from 'node:fs/promises'
import { pipeline } from 'node:stream'
import { createGunzip } from 'node:zlib'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { parseAddress } from '../egress/address.ts'
import type { NetworkFacts } from '../facts.ts'
import { shown } from '../shown.ts'

export const ASN_DB = 'data/ip2asn-combined.tsv.gz' // default of the setting
const ROWS_MAX = 2_000_000 // per family; beyond: the file is refused
const LINES_MAX = 2 * ROWS_MAX // including empty lines and ranges without a network
const LINE_CHARS_MAX = 1_000 // beyond: the file is refused
const TEXT_CHARS_MAX = 2 ** 28 // uncompressed; the table of 2026 has 2^25. Beyond: the file is refused
const BOUNDS = { linesMax: LINES_MAX, textCharsMax: TEXT_CHARS_MAX }
const NAME_CHARS = 80
const GZIP_MAGIC = 0x1f8b

type AsnFacts = NetworkFacts['asn']
export interface AsnTable {
  readonly rangesCount: number
  find(address: string): AsnFacts
}

const NOTHING: AsnFacts = Object.freeze({ number: null, name: null, country: null })
export const NO_ASN_TABLE: AsnTable = { rangesCount: 0, find: () => ({ ...NOTHING }) }

/** Like `loadAsnTable`, but a missing or unusable file is logged once and the table is empty. */
export async function openAsnTable(path: string, log: Log): Promise<AsnTable> {
  if (path === '') return NO_ASN_TABLE
  try {
    const table = await loadAsnTable(path)
    if (table === NO_ASN_TABLE)
      log(
        'warning',
        `ASN_DB: ${path} does not exist, so the autonomous systems of sites are unknown (asn is null); \`sluice monitor asn install\` installs it`,
      )
    return table
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    log('error', `the autonomous systems of sites are unknown (asn is null): ${error.message}`)
    return NO_ASN_TABLE
  }
}

/**
 * Reads a file, compressed or not. Returns NO_ASN_TABLE if it does not exist; throws ConfigurationError if it is malformed or
 * its rows are not in order. `name`: what errors call the file.
 */
export async function loadAsnTable(path: string, name = path, bounds = BOUNDS): Promise<AsnTable> {
  const families = [new Rows(1), new Rows(4)]
  const owners = new Map<number, AsnFacts>()
  let lineNumber = 0
  try {
    for await (const line of readLines(path, bounds.textCharsMax)) {
      lineNumber++
      if (lineNumber > bounds.linesMax) throw new Error('has too many lines')
      if (line.length > LINE_CHARS_MAX)
        throw new Error(`is longer than the ${LINE_CHARS_MAX} characters of a row`)
      if (line === '') continue
      const [first, last, number, country, owner = ''] = line.split('\t')
      const [from, to] = [parseAddress(first), parseAddress(last ?? '')]
      if (from === null || from.length !== to?.length || !/^[0-9]{1,10}$/.test(number))
        throw new Error('not a row of ip2asn')
      if (Number(number) === 0) continue // not routed
      families[from.length === 4 ? 0 : 1].add(from, to, Number(number))
      if (owners.has(Number(number))) continue
      owners.set(Number(number), {
        number: Number(number),
        name: shown(owner, NAME_CHARS) || null,
        country: /^[A-Z]{2}$/.test(country) ? country : null,
      })
    }
  } catch (error) {
    if ((error as { code?: string }).code === 'ENOENT') return NO_ASN_TABLE
    const where = lineNumber > 0 ? `${name}:${lineNumber}` : name
    const what = `${(error as Error).message}.`
    const fix = 'Download the file again, or remove it to run without it.'
    throw new ConfigurationError({ code: 'ASN_DB', where, what, fix }, { cause: error })
  }
  return {
    rangesCount: families[0].count + families[1].count,
    find: (text) => {
      const address = parseAddress(text)
      const number = address && families[address.length === 4 ? 0 : 1].find(address)
      return { ...(number === null ? NOTHING : (owners.get(number) as AsnFacts)) }
    },
  }
}

/** Of a line that is too long, at most one chunk of the stream is kept. */
async function* readLines(path: string, textCharsMax: number): AsyncIterable<string> {
  if (!(await stat(path)).isFile()) throw new Error('is not a file') // opening a pipe waits for its writer
  const isCompressed = await isGzip(path)
  const file = createReadStream(path)
  const onEnd = () => {} // an error is thrown where `plain` is read
  const plain = isCompressed ? pipeline(file, createGunzip(), onEnd) : file
  let charsCount = 0
  let rest = ''
  for await (const piece of plain.setEncoding('utf8') as AsyncIterable<string>) {
    charsCount += piece.length
    if (charsCount > textCharsMax)
      throw new Error(`the text has more than ${textCharsMax} characters, unpacked`)
    const lines = (rest + piece).split('\n')
    rest = lines.pop() as string
    for (const line of lines) yield line.endsWith('\r') ? line.slice(0, -1) : line
    if (rest.length > LINE_CHARS_MAX) yield rest
  }
  yield rest
}

/** By its first bytes: a file may be decompressed and keep its name. */
async function isGzip(path: string): Promise<boolean> {
  const file = await open(path)
  try {
    const { buffer, bytesRead } = await file.read(Buffer.alloc(2), 0, 2, 0)
    return bytesRead === 2 && buffer.readUInt16BE() === GZIP_MAGIC
  } finally {
    await file.close()
  }
}

/** Ranges of one family, ascending and disjoint. */
class Rows {
  private readonly words: number // per address
  count = 0
  private firsts: Uint32Array
  private lasts: Uint32Array
  private numbers: Uint32Array

  constructor(words: number) {
    this.words = words
    this.firsts = new Uint32Array(1_024 * words)
    this.lasts = new Uint32Array(1_024 * words)
    this.numbers = new Uint32Array(1_024)
  }

  add(first: Uint8Array, last: Uint8Array, number: number): void {
    const [from, to] = [toWords(first), toWords(last)]
    if (this.count === ROWS_MAX) throw new Error('too many rows')
    const isAfter = this.count === 0 || this.compare(this.lasts, this.count - 1, from) < 0
    if (!isAfter || compareWords(from, 0, to) > 0) throw new Error('out of order')
    if (this.count === this.numbers.length) this.grow()
    this.firsts.set(from, this.count * this.words)
    this.lasts.set(to, this.count * this.words)
    this.numbers[this.count++] = number
  }

  find(address: Uint8Array): number | null {
    const words = toWords(address)
    let low = 0 // the last range that starts at or before the address is in [low - 1, high - 1]
    let high = this.count
    while (low < high) {
      const middle = (low + high) >>> 1
      if (this.compare(this.firsts, middle, words) <= 0) low = middle + 1
      else high = middle
    }
    if (low === 0 || this.compare(this.lasts, low - 1, words) < 0) return null
    return this.numbers[low - 1]
  }

  private compare(column: Uint32Array, row: number, words: Uint32Array): number {
    return compareWords(column, row * this.words, words)
  }

  private grow(): void {
    const doubled = (column: Uint32Array) => {
      const next = new Uint32Array(column.length * 2)
      next.set(column)
      return next
    }
    this.firsts = doubled(this.firsts)
    this.lasts = doubled(this.lasts)
    this.numbers = doubled(this.numbers)
  }
}

/** Compares `words` with as many words of `column` from `at`. */
function compareWords(column: Uint32Array, at: number, words: Uint32Array): number {
  for (let i = 0; i < words.length; i++) {
    if (column[at + i] !== words[i]) return column[at + i] < words[i] ? -1 : 1
  }
  return 0
}

function toWords(bytes: Uint8Array): Uint32Array {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.length)
  return Uint32Array.from({ length: bytes.length / 4 }, (_, i) => view.getUint32(4 * i))
}
