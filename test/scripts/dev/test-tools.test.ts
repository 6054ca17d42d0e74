/** The optional tools of the tests. The others are tested with the bootstrap. */
import { chmodSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { buildH2spec, findH2spec, h2specSkipReason } from '../../../scripts/dev/h2spec.mjs'
import { allThere, provide, reportSkips, tools } from '../../../scripts/dev/test-tools.mjs'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const TOOLS_DIR = fileURLToPath(new URL('../../.tools/', import.meta.url))

let printed = ''

beforeEach(() => {
  printed = ''
  vi.spyOn(process.stderr, 'write').mockImplementation((text) => {
    printed += text
    return true
  })
})
afterEach(() => {
  vi.restoreAllMocks()
  vi.unstubAllEnvs()
})

function createTool(skipReason: string | null) {
  return { name: 'h2spec', isThere: () => false, get: vi.fn(async () => {}), skipReason: () => skipReason }
}

test('an optional tool that cannot be had is not installed, and its reason is printed', async () => {
  const tool = createTool('install Go.')
  expect(allThere([tool])).toBe(true)
  await provide([tool])
  expect(tool.get).not.toHaveBeenCalled()
  reportSkips([tool])
  expect(printed).toBe('sluice: install Go.\n')
})

test('an optional tool that could not be installed does not fail the start', async () => {
  const tool = createTool(null)
  expect(allThere([tool])).toBe(false)
  await provide([tool])
  expect(tool.get).toHaveBeenCalledOnce()
  reportSkips([tool])
  expect(printed).toBe('')
})

/** An environment whose only program is a `go` with this shell text. */
function createGo(text: string): { PATH: string } {
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'go'), `#!/bin/sh\n${text}\n`)
  chmodSync(join(folder, 'go'), 0o755)
  return { PATH: folder }
}

const BUILDS = '/bin/cp /bin/true "$4"' // as go build -buildvcs=false -o FILE

test('h2spec is built from the pinned sources, and a build is found until they change', async () => {
  const folder = join(makeTemporaryFolder(), '.tools')
  const env = createGo(BUILDS)
  expect(findH2spec(env, folder)).toBeNull()
  await buildH2spec(env, folder)
  expect(printed).toBe('sluice: building h2spec with Go into test/.tools, for the tests …\n')
  expect(findH2spec(env, folder)).toBe(join(folder, 'h2spec'))
  expect(readdirSync(folder).sort()).toEqual(['h2spec', 'h2spec.stamp'])
  writeFileSync(join(folder, 'h2spec.stamp'), 'older sources')
  expect(findH2spec(env, folder)).toBeNull()
})

test('a build that fails is reported with its output, and leaves nothing', async () => {
  const folder = makeTemporaryFolder()
  await buildH2spec(createGo('echo "no route to the proxy" >&2; exit 1'), folder)
  expect(printed).toContain(
    'no route to the proxy\nsluice: Go could not build h2spec, see above; the h2spec test is skipped.',
  )
  expect(readdirSync(folder)).toEqual([])
})

test('without Go the reason names what to install; a folder called go is not a program', () => {
  const folder = makeTemporaryFolder()
  mkdirSync(join(folder, 'go'))
  const reason = h2specSkipReason({ PATH: folder }, folder)
  expect(reason).toMatch(
    /^the h2spec test is skipped: install Go 1\.18 or newer, .* or set H2SPEC to an h2spec binary\.$/,
  )
  expect(h2specSkipReason(createGo(''), folder)).toBeNull()
})

test('H2SPEC names the binary; one that cannot be run is an error', () => {
  expect(findH2spec({ H2SPEC: '/bin/sh' })).toBe('/bin/sh')
  expect(() => findH2spec({ H2SPEC: '/bin/nothing' })).toThrow(
    'H2SPEC: /bin/nothing cannot be run. Name an h2spec binary, or unset H2SPEC.',
  )
})

// biome-ignore format: a table
const installers = [
  // installer, tool → the remedy
  ['npm',     'openapi-typescript',    /^no network\nsluice: npm could not fetch openapi-typescript@[\d.]+, .*npm_config_registry/s],
  ['python3', 'openapi-python-client', /^no network\nsluice: pip could not fetch openapi-python-client==[\d.]+, .*PIP_INDEX_URL/s],
] as const
test.each(installers)(
  'without a network %s says how to get %s, and leaves nothing behind',
  async (program, name, remedy) => {
    const folder = makeTemporaryFolder()
    const given = join(folder, 'arguments')
    writeFileSync(join(folder, program), `#!/bin/sh\necho "$@" > '${given}'\necho no network\nexit 1\n`)
    chmodSync(join(folder, program), 0o755)
    vi.stubEnv('PATH', folder)
    await expect(tools.find((tool) => tool.name === name)!.get!()).rejects.toThrow(remedy)
    expect(printed).toMatch(new RegExp(`^sluice: fetching ${name} \\(\\d+ MB unpacked\\) into test/.tools`))
    const [unpacked] = /\S+unpacking-\S+/.exec(readFileSync(given, 'utf8'))!
    expect(unpacked.startsWith(TOOLS_DIR)).toBe(true)
    expect(existsSync(unpacked)).toBe(false)
  },
)
