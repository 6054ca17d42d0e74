/**
 * The package as a stranger gets it: packed here, installed from its tarball in an empty folder, run from there. What
 * works in a checkout can fail here: Node strips no types under node_modules, and a file not listed is not shipped.
 * Needs npm's registry, or its cache; about 15 s.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { mkdirSync, mkdtempSync, renameSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const INSTALL_MS_MAX = 240_000
const START_MS_MAX = 20_000

// npm hands its own settings down as variables; the npm that a stranger runs has none of ours.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)))

let folder: string
let files: string[]

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'pack-'))
  const packed = await finish(start('npm', ['pack', '--json', '--pack-destination', folder], { cwd: ROOT }))
  expect(packed, packed.said).toMatchObject({ code: 0 })
  const [tarball] = Object.values(JSON.parse(packed.stdout)) as {
    filename: string
    files: { path: string }[]
  }[]
  files = tarball.files.map((file) => file.path)

  const scripts = { node: true, protobufjs: false }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, allowScripts: scripts }))
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', join(folder, tarball.filename)]
  const installed = await finish(start('npm', args))
  expect(installed, installed.said).toMatchObject({ code: 0 })
}, INSTALL_MS_MAX)

afterAll(() => rmSync(folder, { recursive: true, force: true }))

function start(program: string, args: string[], { cwd = folder, more = {} } = {}): ChildProcess {
  return spawn(program, args, { cwd, env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] })
}

async function finish(child: ChildProcess) {
  let stdout = ''
  let said = ''
  child.stdout!.on('data', (chunk) => {
    stdout += chunk
    said += chunk
  })
  child.stderr!.on('data', (chunk) => {
    said += chunk
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { code, stdout, said }
}

/** How `sluice` is called: by the Node that runs this, and by one that says it is older. */
function commands(): Record<string, [string, string[]]> {
  const preload = join(folder, 'version.cjs')
  const versions = "{ value: { ...process.versions, node: '20.20.2' } }"
  writeFileSync(preload, `Object.defineProperty(process, 'versions', ${versions})`)
  return {
    'this Node': [join(folder, 'node_modules/.bin/sluice'), []],
    'an older Node': [process.execPath, ['--require', preload, join(folder, 'node_modules/.bin/sluice')]],
  }
}

describe('what is shipped', () => {
  test('everything that runs and explains, nothing that tests or builds', () => {
    // biome-ignore format: one list to read
    for (const path of ['LICENSE', 'README.md', 'CHANGELOG.md', 'scripts/sluice.mjs', 'dist/scripts/sluice.js', 'dist/engine/window.js']) {
      expect(files).toContain(path)
    }
    expect(files).toEqual(
      expect.arrayContaining(['dist/monitor/api/changelog.yaml', 'dist/monitor/api/schema/examples.json']),
    )
    expect(files.filter((path) => /\.ts$|test|bootstrap|\/(pack|tidy)\.js|\.tgz$/.test(path))).toEqual([])
  })
})

for (const by of ['this Node', 'an older Node']) {
  describe(`installed, started by ${by}`, () => {
    test('sluice --help', async () => {
      const [program, args] = commands()[by]
      const { code, said } = await finish(start(program, [...args, '--help']))
      expect(said).toContain('serve')
      expect(code).toBe(0)
    })

    test('sluice serve listens, and SIGTERM ends it with exit 0', async () => {
      const runtimeRoot = join(folder, 'runtime')
      mkdirSync(join(runtimeRoot, 'config'), { recursive: true })
      const more = {
        ...{ HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' },
        ...{ PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0', WORKERS: '1' },
        ...{ RUNTIME_ROOT: runtimeRoot, RUNTIME_WATCH_ROOT: 'false', USE_STATSD: 'false' },
      }
      const [program, args] = commands()[by]
      const child = start(program, [...args, 'serve'], { more })
      const timer = setTimeout(() => child.kill('SIGKILL'), START_MS_MAX)
      let heard = ''
      child.stderr!.on('data', (chunk) => {
        heard += chunk
        if (heard.includes('Listening for HTTP on') && !child.killed) child.kill('SIGTERM')
      })
      const { code, said } = await finish(child)
      clearTimeout(timer)
      expect(said, `no line "Listening for HTTP on" within ${START_MS_MAX} ms`).toContain(
        'Listening for HTTP on',
      )
      expect(code, said).toBe(0)
    })
  })
}

describe('the monitor, installed', () => {
  test('finds its changelog and the examples of its API', async () => {
    const from = (file: string) => JSON.stringify(join(folder, 'node_modules/sluice/dist/monitor/api', file))
    const code = `
      const { readChangelog } = await import(${from('changelog.js')})
      const { openApi } = await import(${from('schema/openapi.js')})
      const { paths } = openApi({ version: '1', isClosed: false })
      const { example } = paths['/api/v1/meta'].get.responses[200].content['application/json']
      console.log(readChangelog()[0].kind, example.service)`
    const { said } = await finish(start(process.execPath, ['--input-type=module', '--eval', code]))
    expect(said).toBe('added relay-site-monitor\n')
  })
})

describe('installed incompletely', () => {
  test('without the binary for Node 22, one line says what to run', async () => {
    const binaries = join(folder, 'node_modules/@uwsjs')
    renameSync(binaries, `${binaries}-away`)
    const { code, said } = await finish(start(join(folder, 'node_modules/.bin/sluice'), ['--help']))
    renameSync(`${binaries}-away`, binaries)
    expect(code).toBe(1)
    expect(said).toBe(
      'sluice: uWebSockets.js is installed without its binary for Node 22. Where you ran npm install, run: ' +
        `npx --yes --package=node@22 -- sh -c 'node "$npm_execpath" install'\n`,
    )
  })
})
