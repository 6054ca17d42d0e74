/**
 * Style sheet, modules and icon: read once at the start, served under names with the hash of their content, so that clients
 * may keep them for ever.
 *
 *     assets/theme.js      ─► /assets/theme.3f2a91c0.js     immutable, br and gzip made at the start
 *     assets/style/*.css   ─► /assets/style.9b14e0d2.css    joined in the order of their names
 */
import { createHash } from 'node:crypto'
import { readdirSync, readFileSync } from 'node:fs'
import { extname } from 'node:path'
import { Body, BROTLI_QUALITY_MAX } from '../api/bodies.ts'

const FOLDER = new URL('assets/', import.meta.url)
const PREFIX = '/assets/'
const HASH_CHARS = 10

const TYPES: Record<string, string> = {
  '.css': 'text/css; charset=utf-8',
  '.js': 'text/javascript; charset=utf-8',
  '.svg': 'image/svg+xml',
}

const IMPORT = /^(import .{1,200} from )'\.\/([\w-]{1,64}\.js)'/gm // of our own files

export interface Asset {
  body: Body
  type: string
}

export class Assets {
  private readonly byPath = new Map<string, Asset>()
  private readonly paths = new Map<string, string>() // name → path with its hash

  private readonly folder: URL

  constructor(folder = FOLDER) {
    this.folder = folder
    for (const name of readdirSync(folder)) if (TYPES[extname(name)]) this.add(name)
    const style = new URL('style/', folder)
    const sheets = readdirSync(style).sort()
    this.keep('style.css', sheets.map((name) => readFileSync(new URL(name, style), 'utf8')).join('\n'))
  }

  find(path: string): Asset | undefined {
    return this.byPath.get(path)
  }

  /** The path of an asset. Throws if there is none: a page names one that does not exist. */
  readonly getPath = (name: string): string => {
    const path = this.paths.get(name)
    if (path === undefined) throw new Error(`no asset ${name}`)
    return path
  }

  get(name: string): Asset {
    return this.byPath.get(this.getPath(name))!
  }

  /** Returns the path. A module's imports are added first, since their paths are part of its text. */
  private add(name: string): string {
    const known = this.paths.get(name)
    if (known) return known
    const source = readFileSync(new URL(name, this.folder), 'utf8')
    return this.keep(
      name,
      source.replace(IMPORT, (_, start, imported) => `${start}'${this.add(imported)}'`),
    )
  }

  private keep(name: string, text: string): string {
    const extension = extname(name)
    const hash = createHash('sha256').update(text).digest('hex').slice(0, HASH_CHARS)
    const path = `${PREFIX}${name.slice(0, -extension.length)}.${hash}${extension}`
    const body = new Body(text, () => {}, BROTLI_QUALITY_MAX)
    for (const coding of ['br', 'gzip'] as const) void body.form(coding)
    this.byPath.set(path, { body, type: TYPES[extension] })
    this.paths.set(name, path)
    return path
  }
}
