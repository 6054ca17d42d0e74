/** Parts for tests of the catalogue: a folder that goes away, files in it, a site in few words. */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { onTestFinished } from 'vitest'

/** Returns the path of `name` in a new folder that holds `files`. */
export function folderWith(files: Record<string, string>, name = 'catalogue.yaml'): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-catalogue-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  return name === '' ? folder : join(folder, name)
}

/** `sites`: each the lines of one, without the dash. */
export function catalogueOf(...sites: string[]): string {
  const items = sites.map((lines) => `  - ${lines.trim().split('\n').join('\n    ')}\n`)
  return `version: 1\nsites:\n${items.join('')}`
}

export function siteLines(slug: string, more = ''): string {
  return `slug: ${slug}\nname: Site ${slug}\nurl: https://${slug}.example.com\n${more}`
}
