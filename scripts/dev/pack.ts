/**
 * Writes dist/, the code of an installed package: the same tree as .js, because Node strips no types under node_modules.
 *
 *     engine/match/trie.ts ──► dist/engine/match/trie.js        imports of './x.ts' become './x.js'
 *     engine/stores/redis/*.lua ─► dist/engine/stores/redis/*.lua     files other than TypeScript are copied
 *
 * Types are not checked here, `npm run check` does that. scripts/sluice.mjs and examples/ are shipped where they are.
 * `node scripts/dev/pack.ts <folder> [tsconfig]` writes to another folder of the root; the tests start services and the demo from one.
 */
import { spawnSync } from 'node:child_process'
import { cpSync, existsSync, rmSync } from 'node:fs'
import { fileURLToPath } from 'node:url'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const FOLDERS = ['engine', 'transports', 'monitor', 'proto'].filter((folder) => existsSync(ROOT + folder))
const NOT_SHIPPED = /\.(ts|md)$/

const OUT = process.argv[2] ?? 'dist'
const CONFIG = process.argv[3] ?? 'tsconfig.dist.json'

rmSync(ROOT + OUT, { recursive: true, force: true }) // a deleted source must not stay in the package
const tsc = spawnSync(
  process.execPath,
  [`${ROOT}node_modules/typescript/bin/tsc`, '-p', CONFIG, '--outDir', OUT],
  {
    cwd: ROOT,
    stdio: ['ignore', process.stderr, process.stderr], // stdout belongs to `npm pack --json`
  },
)
if (tsc.status !== 0) process.exit(tsc.status ?? 1)

for (const folder of FOLDERS) {
  cpSync(`${ROOT}${folder}`, `${ROOT}${OUT}/${folder}`, {
    recursive: true,
    filter: (from) => !NOT_SHIPPED.test(from),
  })
}
