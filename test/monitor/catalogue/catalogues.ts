/** Inputs of the catalogue's tests: a temporary folder with files, a catalogue as text, a site with few fields. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

/** Returns the path of `name` in a new folder that holds `files`. */
export function folderWith(files: Record<string, string>, name = 'catalogue.yaml'): string {
  const folder = makeTemporaryFolder()
  for (const [file, text] of Object.entries(files)) writeFileSync(join(folder, file), text)
  return name === '' ? folder : join(folder, name)
}

/** `sites`: the lines of each site, without the dash. */
export function toCatalogue(...sites: string[]): string {
  const items = sites.map((lines) => `  - ${lines.trim().split('\n').join('\n    ')}\n`)
  return `version: 1\nsites:\n${items.join('')}`
}

export function siteLines(slug: string, more = ''): string {
  return `slug: ${slug}\nname: Site ${slug}\nurl: https://${slug}.example.com\n${more}`
}
