/**
 * What a person would have to remember about the shape of the repository, checked by `npm run check`.
 *
 *     arrows    monitor, transports ──► engine ──► proto; never back. scripts, bench and test import anything
 *     one door  uWebSockets.js is imported by transports/uws.ts alone, so moving to a newer one is one line
 *     way out   under monitor/ only monitor/egress opens sockets or asks DNS (monitor spec 5)
 *     lock      package-lock.json has an integrity for everything but known gaps (lockfile.ts)
 *     patterns  a regular expression built from text is listed, so that the hostile-input test has it (patterns.ts)
 *     cycles    no file imports itself through others (import-cycles.ts)
 *     names     words that say too little do not spread (plain-names.ts)
 *     map       every top folder has a README.md of at most 30 lines, which names only files that exist
 *
 * How long a function or a file may be is Biome's part (biome.json); an exception there is a `biome-ignore` with its
 * reason, at the place itself. Imports are found by their text and not by parsing: Biome's formatter sees to it that
 * they begin a line and use single quotes. Gives up: an import that somebody hides on purpose.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkCycles } from './import-cycles.ts'
import { checkLock, readLock } from './lockfile.ts'
import { checkPatterns, PATTERN_FOLDERS, patternsBelow } from './patterns.ts'
import { checkNames } from './plain-names.ts'

const README_LINES_MAX = 30 // one screen: one sentence, then the files in reading order

/** Top folder → the other top folders it may import. */
const ARROWS: Record<string, string[]> = {
  proto: [],
  engine: ['proto'],
  monitor: ['engine', 'proto'],
  transports: ['engine', 'proto'],
  scripts: ['engine', 'proto', 'monitor', 'transports', 'bench', 'test'],
  bench: ['engine', 'proto', 'monitor', 'transports', 'scripts', 'test'],
  test: ['engine', 'proto', 'monitor', 'transports', 'scripts', 'bench'],
}

/** Top folders without import cycles. */
const ACYCLIC = ['proto', 'engine', 'monitor', 'transports', 'scripts']

/** Package → the one file that may import it. */
const DOORS: Record<string, string> = { 'uWebSockets.js': 'transports/uws.ts' }

/** What can reach out, by module and by global; and the one folder of the monitor that may use it. */
const WAY_OUT = 'monitor/egress/'
const OUTWARD = new Set(['net', 'tls', 'http', 'https', 'http2', 'undici', 'dgram', 'dns'])
const OUTWARD_GLOBALS = /(?<![\w.$#-])(?:globalThis\.)?(fetch|WebSocket|EventSource)\b(?=\(|;|\)|,|$)/
const COMMENT = /^\s*(?:\/?\*|\/\/).*|\s\/\/ .*/

/** File → why nothing here applies to it. */
const EXCEPTIONS: Record<string, string> = {}

const IMPORTS =
  /^(?:import|export|\}).*? from '([^']+)'|^import '([^']+)'|\b(?:import|require|sourceUrl|new URL|getBuiltinModule)\('([^']+)'/
const FILE_NAMES = /(?<![\w*<>./-])\w[\w./-]*\.(?:ts|mjs|lua|proto)\b/g // whole names; patterns like *.test.ts are not

/** Everything to mend in the tree under `root`, each as `file:line: what. Remedy.` */
export function tidy(root: string, exceptions = EXCEPTIONS): string[] {
  const complaints: string[] = []
  for (const folder of Object.keys(ARROWS)) {
    const files = filesBelow(root, folder)
    if (!files.includes(`${folder}/README.md`)) {
      complaints.push(
        `${folder}/README.md: is missing. Say in one sentence what the folder does, then list its files.`,
      )
    }
    for (const file of files) {
      if (file in exceptions) continue
      const lines = readFileSync(join(root, file), 'utf8').trimEnd().split('\n')
      if (/\.(ts|mjs)$/.test(file)) complaints.push(...checkImports(file, lines))
      if (file.endsWith('README.md')) complaints.push(...checkReadme(root, file, lines, files))
    }
  }
  return complaints
}

function checkImports(file: string, lines: string[]): string[] {
  const complaints: string[] = []
  const [folder] = file.split('/')
  lines.forEach((line, index) => {
    const match = IMPORTS.exec(line)
    const target = match?.[1] ?? match?.[2] ?? match?.[3]
    const where = `${file}:${index + 1}`
    const outward = findOutwardUse(file, line, target)
    if (outward) complaints.push(`${where}: uses ${outward}. Only ${WAY_OUT} may; reach out through it.`)
    if (!target) return
    const door = DOORS[target]
    if (door && file !== door)
      complaints.push(`${where}: imports ${target}. Only ${door} may; import from there.`)
    if (!target.startsWith('.')) return
    const [other] = join(file, '..', target).split('/')
    if (other === folder || !ARROWS[other] || ARROWS[folder].includes(other)) return
    const allowed = ARROWS[folder].join(', ') || 'no other folder'
    complaints.push(
      `${where}: imports ${other}. ${folder} may import ${allowed}; move what both need down there.`,
    )
  })
  return complaints
}

/** What on this line could reach out past the monitor's egress. */
function findOutwardUse(file: string, line: string, target = ''): string | undefined {
  if (!file.startsWith('monitor/') || file.startsWith(WAY_OUT)) return undefined
  const [module] = target.replace(/^node:/, '').split('/')
  if (OUTWARD.has(module)) return target
  return OUTWARD_GLOBALS.exec(line.replace(COMMENT, ''))?.[1]
}

function checkReadme(root: string, file: string, lines: string[], files: string[]): string[] {
  const complaints: string[] = []
  if (lines.length > README_LINES_MAX) {
    complaints.push(
      `${file}: has ${lines.length} lines, ${README_LINES_MAX} fit on a screen. Move the why into the files it names.`,
    )
  }
  lines.forEach((line, index) => {
    for (const [name] of line.matchAll(FILE_NAMES)) {
      if (files.some((known) => known.endsWith(`/${name}`)) || existsSync(join(root, name))) continue
      complaints.push(
        `${file}:${index + 1}: names ${name}, which does not exist. Rename it here, or take it out.`,
      )
    }
  })
  return complaints
}

/** Paths from `root`, `/` between. Hidden folders (test/.tools) are nobody's code. */
function filesBelow(root: string, folder: string): string[] {
  if (!existsSync(join(root, folder))) return []
  const entries = readdirSync(join(root, folder), { withFileTypes: true })
  return entries.flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.isFile()) return [path]
    const isOurs = entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules'
    return isOurs ? filesBelow(root, path) : []
  })
}

/** Path from the root → text of each TypeScript and JavaScript file. */
function readSources(root: string, folders: string[]): Map<string, string> {
  const files = folders
    .flatMap((folder) => filesBelow(root, folder))
    .filter((file) => /\.(ts|mjs)$/.test(file))
  return new Map(files.map((file) => [file, readFileSync(join(root, file), 'utf8')]))
}

if (import.meta.main) {
  const root = new URL('../..', import.meta.url)
  const path = fileURLToPath(root)
  const cycles = checkCycles(readSources(path, ACYCLIC))
  const named = readSources(path, Object.keys(ARROWS))
  named.delete('test/scripts/dev/plain-names.test.ts') // has such names in its cases
  const names = checkNames(named)
  const patterns = checkPatterns(patternsBelow(path, PATTERN_FOLDERS))
  const complaints = [
    ...tidy(path),
    ...cycles.complaints,
    ...names.complaints,
    ...patterns,
    ...checkLock(readLock(root)),
  ]
  for (const warning of cycles.warnings) console.error(`warning: ${warning}`)
  for (const complaint of complaints) console.error(complaint)
  if (names.left.length > 0) console.log(`tidy: names left to replace: ${names.left.join(', ')}.`)
  if (names.lower.length > 0)
    console.log(`tidy: LEFT_MAX of scripts/dev/plain-names.ts can be lowered: ${names.lower.join(', ')}.`)
  console.log(
    complaints.length === 0 ? 'tidy: everything is in its place.' : `tidy: ${complaints.length} to fix.`,
  )
  process.exitCode = complaints.length === 0 ? 0 : 1
}
