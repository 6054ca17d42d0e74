/**
 * h2spec tests an HTTP/2 server against RFC 9113 and RFC 7541; test/system/h2spec.test.ts runs it. It is built where Go is
 * installed, from the versions pinned in h2spec/go.mod; H2SPEC names a binary to use instead. Elsewhere the test is skipped.
 */
import { mkdirSync, mkdtempSync, readFileSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { delimiter, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { isExecutable, Remedy, run, say, tail } from './child.mjs'

const TOOLS_DIR = fileURLToPath(new URL('../../test/.tools/', import.meta.url))
const SOURCES = fileURLToPath(new URL('h2spec/', import.meta.url)) // go.mod and go.sum: versions and hashes
const PACKAGE = 'github.com/summerwind/h2spec/cmd/h2spec'
const GO_FOLDER = '/usr/local/go/bin' // of the official archive; not on every PATH
const BUILD_MS_MAX = 600_000 // 20 s is usual; beyond, the build is ended and the test is skipped

/** The h2spec to run: H2SPEC, or the one built from the sources pinned now. Null if there is none. */
export function findH2spec(env = process.env, folder = TOOLS_DIR) {
  if (env.H2SPEC) {
    if (isExecutable(env.H2SPEC)) return env.H2SPEC
    throw new Remedy(`H2SPEC: ${env.H2SPEC} cannot be run. Name an h2spec binary, or unset H2SPEC.`)
  }
  try {
    const path = join(folder, 'h2spec')
    return readFileSync(`${path}.stamp`, 'utf8') === readSources() && isExecutable(path) ? path : null
  } catch {
    return null
  }
}

/** Why there can be no h2spec on this machine. Null where Go can build one. */
export function h2specSkipReason(env = process.env, goFolder = GO_FOLDER) {
  if (findGo(env, goFolder) !== null) return null
  return `the h2spec test is skipped: install Go 1.18 or newer, which builds h2spec (apt-get install golang-go, brew install go, \
dnf install golang), or set H2SPEC to an h2spec binary.`
}

function readSources() {
  return readFileSync(join(SOURCES, 'go.mod'), 'utf8')
}

/** A build that fails is reported; the h2spec test is skipped then, and the next start builds again. */
export async function buildH2spec(env = process.env, folder = TOOLS_DIR) {
  say('building h2spec with Go into test/.tools, for the tests …')
  mkdirSync(folder, { recursive: true })
  const building = mkdtempSync(join(folder, 'building-'))
  try {
    const binary = join(building, 'h2spec')
    const args = ['build', '-buildvcs=false', '-o', binary, PACKAGE]
    // -mod=readonly: exactly the versions of go.mod, checked against the hashes of go.sum
    const goEnv = { ...env, CGO_ENABLED: '0', GOFLAGS: '-mod=readonly', GOWORK: 'off' }
    const built = await run(findGo(env, GO_FOLDER), args, { msMax: BUILD_MS_MAX, env: goEnv, cwd: SOURCES })
    const started = built.code === 0 ? await run(binary, ['--version'], { msMax: 30_000 }) : built
    if (started.code !== 0) {
      say(`${tail(started.output)}\nsluice: Go could not build h2spec, see above; the h2spec test is skipped. Connect this \
machine to the Go module proxy (GOPROXY), or set H2SPEC to an h2spec binary.`)
      return
    }
    renameSync(binary, join(folder, 'h2spec'))
    writeFileSync(join(folder, 'h2spec.stamp'), readSources()) // last, so a stamp means a binary that has run here
  } finally {
    rmSync(building, { recursive: true, force: true })
  }
}

function findGo(env, goFolder) {
  const paths = [...(env.PATH ?? '').split(delimiter), goFolder].map((folder) => join(folder, 'go'))
  return paths.find(isExecutable) ?? null
}
