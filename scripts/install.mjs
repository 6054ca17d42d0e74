/**
 * The install script of the package: under any Node, the package works after the install, or the install fails with a
 * message.
 *
 * npm skips an optional package whose `engines` do not match the running Node, so under any Node but 22 it leaves out the
 * binary of uWebSockets.js that the service needs. Then the library is installed once more, with that binary as a direct
 * dependency, into runtime/ of this package, where npm leaves it alone and transports/uws.ts finds it.
 *
 * In a checkout there is nothing to do, scripts/dev/bootstrap.mjs does it; package.json runs this only if it exists, so that
 * `npm ci` needs no sources. Plain JavaScript for Node 18 and later.
 */
import { spawnSync } from 'node:child_process'
import { existsSync, mkdirSync, readFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import {
  hasUwsBinary,
  installedNode,
  isFitting,
  MAJOR,
  nodePackage,
  RUNTIME_FOLDER,
  uwsBinary,
} from './runtime.mjs'

const INSTALL_MS_MAX = 300_000 // a few seconds are usual
const LOAD_MS_MAX = 30_000
const OUTPUT_CHARS_MAX = 4_000 // of the end of npm's or Node's output

// The outer npm exports its settings; these would send the inner one elsewhere.
const NOT_INHERITED =
  /^npm_config_(global|location|prefix|local_prefix|omit|include|engine_strict|dry_run|workspaces?)$/i

if (!existsSync(new URL('./sluice.ts', import.meta.url))) {
  const fault = install()
  if (fault) {
    process.stderr.write(`sluice: ${fault}\n`)
    process.exitCode = 1
  }
}

/** Returns an error text, or undefined. */
function install() {
  const node = isFitting() ? process.execPath : installedNode()
  if (!node) {
    return `needs Node ${MAJOR}, and this is ${process.version}. The package ${nodePackage()} would contain it but was not \
installed: either optional dependencies are omitted, or there is none for this platform. Install Node ${MAJOR} and try again.`
  }
  if (!hasUwsBinary()) {
    const { status, output } = run(...npm())
    if (status !== 0)
      return `${output}\nsluice: npm could not install ${uwsBinary()}, see above. Try again when it can.`
  }
  const load = `require('node:module').createRequire(${JSON.stringify(RUNTIME_FOLDER.href)})('uWebSockets.js').App.name`
  const { status, output } = run(node, ['-p', load], { msMax: LOAD_MS_MAX })
  if (status === 0) return undefined
  return `${output}\nsluice: uWebSockets.js does not load, see above. It needs glibc Linux, macOS or Windows on x64 or arm64.`
}

/** The npm that runs this script, or the one on the PATH, and its arguments. */
function npm() {
  const manifest = JSON.parse(readFileSync(new URL('../package.json', import.meta.url), 'utf8'))
  const library = manifest.dependencies['uWebSockets.js'] // npm:@uwsjs/core@<version>
  const version = library.slice(library.lastIndexOf('@') + 1)
  const packages = [`uWebSockets.js@${library}`, `${uwsBinary()}@${version}`]
  mkdirSync(RUNTIME_FOLDER, { recursive: true })
  const flags = [
    '--no-save',
    '--no-package-lock',
    '--ignore-scripts',
    '--omit=optional',
    '--no-audit',
    '--no-fund',
  ]
  const args = ['install', '--prefix', fileURLToPath(RUNTIME_FOLDER), ...flags, ...packages]
  const script = process.env.npm_execpath ?? ''
  const isNpm = /[\\/]npm-cli\.js$/.test(script) // not pnpm or yarn
  return isNpm ? [process.execPath, [script, ...args]] : ['npm', args]
}

function run(program, args, { msMax = INSTALL_MS_MAX } = {}) {
  const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !NOT_INHERITED.test(name)))
  const { status, error, stdout, stderr } = spawnSync(program, args, {
    env,
    encoding: 'utf8',
    timeout: msMax,
  })
  const output = `${stdout ?? ''}${stderr ?? ''}${error?.message ?? ''}`.trim().slice(-OUTPUT_CHARS_MAX)
  return { status, output }
}
