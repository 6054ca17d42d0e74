/**
 * Rules of the repository that no other tool checks; part of `npm run check`.
 *
 *     arrows    monitor, transports ──► engine ──► proto; never back. scripts, bench and test import anything
 *     one file  only transports/uws.ts imports uWebSockets.js, so that a new version changes one line
 *     egress    under monitor/ only monitor/egress opens sockets or resolves names (monitor spec 5)
 *     lock      package-lock.json has an integrity for everything but known gaps (lockfile.ts)
 *     patterns  a regular expression built from text is listed, so that the hostile-input test has it (patterns.ts)
 *     cycles    no file imports itself through others (import-cycles.ts)
 *     names     no more names that say too little (plain-names.ts)
 *     readme    every top folder has a README.md of at most 30 lines that names only files that exist
 *
 * Biome limits the length of functions and files (biome.json). Imports are found by their text: Biome's formatter makes them
 * begin a line and use single quotes. An import that is hidden on purpose is not found.
 */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { checkCycles } from './import-cycles.ts'
import { checkLock, readLock } from './lockfile.ts'
import { checkPatterns, findPatternsBelow, PATTERN_FOLDERS } from './patterns.ts'
import { checkNames } from './plain-names.ts'

const README_LINES_MAX = 30 // one screen: one sentence, then the files in reading order

/** Top folder → the other top folders it may import. */
const ALLOWED_IMPORTS: Record<string, string[]> = {
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
const SOLE_IMPORTERS: Record<string, string> = { 'uWebSockets.js': 'transports/uws.ts' }

/** Modules and globals that open connections, and the one folder of the monitor that may use them. */
const EGRESS_FOLDER = 'monitor/egress/'
const OUTWARD = new Set(['net', 'tls', 'http', 'https', 'http2', 'undici', 'dgram', 'dns'])
const OUTWARD_GLOBALS = /(?<![\w.$#-])(?:globalThis\.)?(fetch|WebSocket|EventSource)\b(?=\(|;|\)|,|$)/
const COMMENT = /^\s*(?:\/?\*|\/\/).*|\s\/\/ .*/

/** File → the reason why no rule applies to it. */
const EXCEPTIONS: Record<string, string> = {}

const IMPORTS =
  /^(?:import|export|\}).*? from '([^']+)'|^import '([^']+)'|\b(?:import|require|resolveModule|new URL|getBuiltinModule)\('([^']+)'/
const FILE_NAMES = /(?<![\w*<>./-])\w[\w./-]*\.(?:ts|mjs|lua|proto)\b/g // whole names; patterns like *.test.ts are not

/** All errors in the tree under `root`, each as `file:line: what. Remedy.` */
export function tidy(root: string, exceptions = EXCEPTIONS): string[] {
  const diagnostics: string[] = []
  for (const folder of Object.keys(ALLOWED_IMPORTS)) {
    const files = filesBelow(root, folder)
    if (!files.includes(`${folder}/README.md`)) {
      diagnostics.push(
        `${folder}/README.md: is missing. Say in one sentence what the folder does, then list its files.`,
      )
    }
    for (const file of files) {
      if (file in exceptions) continue
      const lines = readFileSync(join(root, file), 'utf8').trimEnd().split('\n')
      if (/\.(ts|mjs)$/.test(file)) diagnostics.push(...checkImports(file, lines))
      if (file.endsWith('README.md')) diagnostics.push(...checkReadme(root, file, lines, files))
    }
  }
  return diagnostics
}

function checkImports(file: string, lines: string[]): string[] {
  const diagnostics: string[] = []
  const [folder] = file.split('/')
  lines.forEach((line, index) => {
    const match = IMPORTS.exec(line)
    const target = match?.[1] ?? match?.[2] ?? match?.[3]
    const where = `${file}:${index + 1}`
    const outward = findOutwardUse(file, line, target)
    if (outward) diagnostics.push(`${where}: uses ${outward}. Only ${EGRESS_FOLDER} may; connect through it.`)
    if (!target) return
    const importer = SOLE_IMPORTERS[target]
    if (importer && file !== importer)
      diagnostics.push(`${where}: imports ${target}. Only ${importer} may; import from there.`)
    if (!target.startsWith('.')) return
    const [other] = join(file, '..', target).split('/')
    if (other === folder || !ALLOWED_IMPORTS[other] || ALLOWED_IMPORTS[folder].includes(other)) return
    const allowed = ALLOWED_IMPORTS[folder].join(', ') || 'no other folder'
    diagnostics.push(
      `${where}: imports ${other}. ${folder} may import ${allowed}; move what both need there.`,
    )
  })
  return diagnostics
}

/** What on this line could connect without the monitor's egress. */
function findOutwardUse(file: string, line: string, target = ''): string | undefined {
  if (!file.startsWith('monitor/') || file.startsWith(EGRESS_FOLDER)) return undefined
  const [module] = target.replace(/^node:/, '').split('/')
  if (OUTWARD.has(module)) return target
  return OUTWARD_GLOBALS.exec(line.replace(COMMENT, ''))?.[1]
}

function checkReadme(root: string, file: string, lines: string[], files: string[]): string[] {
  const diagnostics: string[] = []
  if (lines.length > README_LINES_MAX) {
    diagnostics.push(
      `${file}: has ${lines.length} lines, ${README_LINES_MAX} fit on a screen. Move the why into the files it names.`,
    )
  }
  lines.forEach((line, index) => {
    for (const [name] of line.matchAll(FILE_NAMES)) {
      if (files.some((known) => known.endsWith(`/${name}`)) || existsSync(join(root, name))) continue
      diagnostics.push(
        `${file}:${index + 1}: names ${name}, which does not exist. Correct the name, or remove it.`,
      )
    }
  })
  return diagnostics
}

/** Paths from `root`, `/` between. Hidden folders (test/.tools) are not read. */
function filesBelow(root: string, folder: string): string[] {
  if (!existsSync(join(root, folder))) return []
  const entries = readdirSync(join(root, folder), { withFileTypes: true })
  return entries.flatMap((entry) => {
    const path = `${folder}/${entry.name}`
    if (entry.isFile()) return [path]
    const isSource = entry.isDirectory() && !entry.name.startsWith('.') && entry.name !== 'node_modules'
    return isSource ? filesBelow(root, path) : []
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
  const named = readSources(path, Object.keys(ALLOWED_IMPORTS))
  named.delete('test/scripts/dev/plain-names.test.ts') // has such names in its cases
  const patterns = checkPatterns(findPatternsBelow(path, PATTERN_FOLDERS))
  const diagnostics = [
    ...tidy(path),
    ...cycles.diagnostics,
    ...checkNames(named),
    ...patterns,
    ...checkLock(readLock(root)),
  ]
  for (const warning of cycles.warnings) console.error(`warning: ${warning}`)
  for (const diagnostic of diagnostics) console.error(diagnostic)
  console.log(diagnostics.length === 0 ? 'tidy: no errors.' : `tidy: ${diagnostics.length} errors.`)
  process.exitCode = diagnostics.length === 0 ? 0 : 1
}
