/**
 * Runs benchmarks one after the other, each in a process of its own, so that they do not affect each other.
 *
 *     npm run bench                     all, small sizes: a minute
 *     npm run bench -- match --full     those whose name contains `match`, at the size to quote
 */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const QUIET = '--disable-warning=ExperimentalWarning' // of node:sqlite
const HELPERS = ['run.ts', 'size.ts', 'measure.ts', 'engine.ts', 'serving.ts']

const folder = fileURLToPath(new URL('.', import.meta.url))
const flags = process.argv.slice(2).filter((arg) => arg.startsWith('-'))
const names = process.argv.slice(2).filter((arg) => !arg.startsWith('-'))
const unknown = flags.find((flag) => flag !== '--full')
const all = readdirSync(folder).filter((name) => name.endsWith('.ts') && !HELPERS.includes(name))
const chosen = all.filter((name) => names.length === 0 || names.some((part) => name.includes(part)))

const isHelp = flags.includes('--help') || flags.includes('-h')
if (isHelp || unknown !== undefined || chosen.length === 0) {
  const list = all.map((name) => name.replace('.ts', '')).join(', ')
  const usage = `usage: npm run bench -- [name ...] [--full]\nnames: ${list}`
  if (isHelp) console.log(usage)
  else console.error(usage)
  process.exit(isHelp ? 0 : 2)
}
const isFull = flags.includes('--full') || process.env.SLUICE_SIZE === 'full'
console.log(
  isFull ? 'full sizes' : 'small sizes, which show that it runs; for figures: npm run bench -- --full',
)
for (const name of chosen) {
  const { status } = spawnSync(process.execPath, [QUIET, `${folder}${name}`, ...flags], { stdio: 'inherit' })
  if (status !== 0) process.exit(status ?? 1)
}
