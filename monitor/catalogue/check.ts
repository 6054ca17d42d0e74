/**
 * Checks across entries (spec 8.1): names and targets that two sites share, ports, the number of sites.
 */
import type { CatalogueEntry, Diagnostic, Diagnostics, RawSite } from './entry.ts'
import { toTargetKey } from './target-key.ts'

export const SITES_MAX = 5_000
export const DEFAULT_PORTS = [80, 443, 3_000, 8_000, 8_080, 8_443] // spec 5.1; PROBE_PORTS

export interface Placed {
  raw: RawSite
  entry: CatalogueEntry
}

export function checkTogether(
  sites: readonly Placed[],
  diagnostics: Diagnostics,
  ports = DEFAULT_PORTS,
): void {
  if (sites.length > SITES_MAX) {
    const what = `there are ${sites.length} sites.`
    diagnostics.add(toDiagnostic(sites[SITES_MAX], 'SITES_TOO_MANY', what, `Keep at most ${SITES_MAX}.`))
  }
  const names = new Map<string, Placed>() // slugs and aliases
  const targets = new Map<string, Placed>()
  for (const site of sites) {
    const { slug, aliases } = site.entry
    claim(names, slug, site, 'slug', diagnostics)
    for (const alias of aliases) claim(names, alias, site, 'aliases', diagnostics)
    for (const key of new Set([toTargetKey(site.entry.url)!, site.entry.apiBase])) {
      const other = targets.get(key)
      if (other) diagnostics.add(sameTarget(site, other, key))
      else targets.set(key, site)
    }
    checkPorts(site, ports, diagnostics)
  }
}

function claim(
  names: Map<string, Placed>,
  name: string,
  site: Placed,
  key: 'slug' | 'aliases',
  diagnostics: Diagnostics,
): void {
  const other = names.get(name)
  if (!other) {
    names.set(name, site)
    return
  }
  const what = `${key === 'slug' ? 'slug' : 'alias'} ${JSON.stringify(name)} is taken by ${describePlace(other)}.`
  diagnostics.add(toDiagnostic(site, 'NAME_TAKEN', what, 'Choose another, or remove one of the two.', key))
}

function sameTarget(site: Placed, other: Placed, key: string): Diagnostic {
  const what = `${key} is already probed for site "${other.entry.slug}" (${describePlace(other)}).`
  return toDiagnostic(
    site,
    'TARGET_TAKEN',
    what,
    'Merge the two entries; list a former name in aliases.',
    'url',
  )
}

/** A site may use one port outside PROBE_PORTS. */
function checkPorts(site: Placed, usual: readonly number[], diagnostics: Diagnostics): void {
  const ports = [site.entry.url, site.entry.apiBase].map(parsePort)
  const unusual = new Set(ports.filter((port) => !usual.includes(port)))
  if (unusual.size <= 1) return
  const what = `url and api_base use two unusual ports, ${[...unusual].join(' and ')}.`
  diagnostics.add(
    toDiagnostic(site, 'PORTS_TOO_MANY', what, `Use one of ${usual.join(', ')} for one of them.`, 'api_base'),
  )
}

function parsePort(text: string): number {
  const url = new URL(text)
  return url.port === '' ? (url.protocol === 'https:' ? 443 : 80) : Number(url.port)
}

function toDiagnostic(
  { raw, entry }: Placed,
  code: string,
  what: string,
  fix: string,
  key?: string,
): Diagnostic {
  const line = (key && raw.fields.get(key)?.line) || raw.line
  return { file: raw.file, line, site: entry.slug, code, what, fix }
}

function describePlace({ raw }: Placed): string {
  return `${raw.file}:${raw.line}`
}
