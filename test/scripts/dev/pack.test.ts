/**
 * The package as users get it: packed here, installed from its tarball in an empty folder, run from there. Node strips no
 * types under node_modules, and a file that is not listed is not shipped. Needs npm's registry, or its cache.
 *
 *     default              unpacked, with links to the packages of this checkout: 1 s instead of 15
 *     SLUICE_SIZE=full     installed by npm
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../../helpers/eventually.ts'
import { startCollector } from '../../helpers/otlp-receiver.ts'
import { size } from '../../helpers/size.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { limit, startXdsServer } from '../../helpers/xds-server.ts'

const ROOT = fileURLToPath(new URL('../../..', import.meta.url))
const EXAMPLE = join(ROOT, 'examples/monitor/catalogue.yaml')
const INSTALL_MS_MAX = 240_000
const START_MS_MAX = 60_000

vi.setConfig({ testTimeout: 2 * START_MS_MAX })

// npm exports its settings as variables, which the npm started here must not inherit.
const env = Object.fromEntries(Object.entries(process.env).filter(([name]) => !/^npm_/i.test(name)))

/** One worker on free ports, and no statistics. */
const PRIVATE = {
  ...{ HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' },
  ...{ PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0', WORKERS: '1', USE_STATSD: 'false' },
}

const folder = makeTemporaryFolder()
let files: string[]

beforeAll(async () => {
  const packed = await finish(start('npm', ['pack', '--json', '--pack-destination', folder], { cwd: ROOT }))
  expect(packed, packed.output).toMatchObject({ code: 0 })
  const [tarball] = Object.values(JSON.parse(packed.stdout)) as {
    filename: string
    files: { path: string }[]
  }[]
  files = tarball.files.map((file) => file.path)

  const install = size({ small: unpack, full: installByNpm })
  await install(join(folder, tarball.filename))
}, INSTALL_MS_MAX)

// 300 MB in full size, which can take longer than a hook may
afterAll(() => rmSync(join(folder, 'node_modules'), { recursive: true, force: true }), INSTALL_MS_MAX)

async function installByNpm(tarball: string): Promise<void> {
  const scripts = { sluice: true, protobufjs: false }
  writeFileSync(join(folder, 'package.json'), JSON.stringify({ private: true, allowScripts: scripts }))
  const args = ['install', '--prefer-offline', '--no-audit', '--no-fund', tarball]
  const installed = await finish(start('npm', args))
  expect(installed, installed.output).toMatchObject({ code: 0 })
}

/** As npm would install it, with links to the packages of this checkout: only those that package.json names. */
async function unpack(tarball: string): Promise<void> {
  const modules = join(folder, 'node_modules')
  const target = join(modules, 'sluice')
  mkdirSync(target, { recursive: true })
  const unpacked = await finish(start('tar', ['-xzf', tarball, '-C', target, '--strip-components=1']))
  expect(unpacked, unpacked.output).toMatchObject({ code: 0 })
  const { bin, dependencies, optionalDependencies } = JSON.parse(
    readFileSync(join(target, 'package.json'), 'utf8'),
  )
  for (const name of Object.keys({ ...dependencies, ...optionalDependencies })) {
    const source = join(ROOT, 'node_modules', name)
    if (name in optionalDependencies && !existsSync(source)) continue
    mkdirSync(dirname(join(modules, name)), { recursive: true })
    if (!COPIED.includes(name)) symlinkSync(source, join(modules, name))
  }
  for (const name of COPIED)
    cpSync(join(ROOT, 'node_modules', name), join(modules, name), { recursive: true, dereference: true })
  mkdirSync(join(modules, '.bin'))
  chmodSync(join(target, bin.sluice), 0o755)
  symlinkSync(join('../sluice', bin.sluice), join(modules, '.bin/sluice'))
}

/** A link would find the other where it is in the checkout. */
const COPIED = ['uWebSockets.js', '@uwsjs']

function start(program: string, args: string[], { cwd = folder, more = {} } = {}): ChildProcess {
  return spawn(program, args, { cwd, env: { ...env, ...more }, stdio: ['ignore', 'pipe', 'pipe'] })
}

async function finish(child: ChildProcess) {
  let stdout = ''
  let output = ''
  child.stdout!.on('data', (chunk) => {
    stdout += chunk
    output += chunk
  })
  child.stderr!.on('data', (chunk) => {
    output += chunk
  })
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once('error', reject)
    child.once('close', resolve)
  })
  return { code, stdout, output }
}

/** Calls of `sluice` by the Node that runs this, and by one that reports an older version. */
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
  test('sources, examples and documents, but no tests or build scripts', () => {
    // biome-ignore format: one list to read
    for (const path of ['LICENSE', 'README.md', 'CHANGELOG.md', 'SECURITY.md', 'scripts/sluice.mjs', 'scripts/runtime.mjs', 'scripts/install.mjs', 'scripts/usage.txt', 'dist/scripts/sluice.js', 'dist/engine/decision/window.js']) {
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
      const { code, output } = await finish(start(program, [...args, '--help']))
      expect(output).toContain('serve')
      expect(code).toBe(0)
    })

    test('sluice serve listens, and SIGTERM ends it with exit 0', async () => {
      const runtimeRoot = join(folder, 'runtime')
      mkdirSync(join(runtimeRoot, 'config'), { recursive: true })
      const more = {
        ...PRIVATE,
        ...{ RUNTIME_ROOT: runtimeRoot, RUNTIME_WATCH_ROOT: 'false' },
      }
      const [program, args] = commands()[by]
      const child = start(program, [...args, 'serve'], { more })
      const timer = setTimeout(() => child.kill('SIGKILL'), START_MS_MAX)
      let log = ''
      child.stderr!.on('data', (chunk) => {
        log += chunk
        if (log.includes('Listening for HTTP on') && !child.killed) child.kill('SIGTERM')
      })
      const { code, output } = await finish(child)
      clearTimeout(timer)
      expect(output, `no line "Listening for HTTP on" within ${START_MS_MAX} ms`).toContain(
        'Listening for HTTP on',
      )
      expect(code, output).toBe(0)
    })
  })
}

test('installed: what is loaded on demand is shipped: xDS, traces, Prometheus, profiles, the monitor', async () => {
  const [xds, collector] = [await startXdsServer(), await startCollector('http')]
  const more = {
    ...PRIVATE,
    ...{ USE_PROMETHEUS: 'true', PROMETHEUS_ADDR: '127.0.0.1:0' },
    ...{ CONFIG_TYPE: 'GRPC_XDS_SOTW', CONFIG_GRPC_XDS_SERVER_URL: `127.0.0.1:${xds.port}` },
    ...{ TRACING_ENABLED: 'true', OTEL_EXPORTER_OTLP_ENDPOINT: collector.url, OTEL_BSP_SCHEDULE_DELAY: '50' },
    ...{ MONITOR_ENABLED: 'true', MONITOR_ADDR: '127.0.0.1:0' },
    ...{ MONITOR_DATA_DIR: join(folder, 'data'), CATALOGUE_PATH: EXAMPLE },
  }
  const child = start(join(folder, 'node_modules/.bin/sluice'), ['serve'], { more })
  onTestFinished(() => void child.kill('SIGKILL'))
  let log = ''
  child.stderr!.on('data', (chunk) => {
    log += chunk
  })
  const waitForAddress = async (name: string) => {
    const line = new RegExp(`Listening for ${name} on '([^']+)'`)
    await eventually(() => expect(log).toMatch(line), START_MS_MAX)
    return `http://${line.exec(log)![1]}`
  }
  await xds.request()
  xds.send({ version: '1', resources: [limit('shop', 'user', 7)] })
  const body = '{"domain":"shop","descriptors":[{"entries":[{"key":"user","value":"a"}]}]}'
  const response = await fetch(`${await waitForAddress('HTTP')}/json`, { method: 'POST', body })
  expect(await response.text()).toContain('"requestsPerUnit":7')
  expect(await collector.spans('ShouldRateLimit Execution')).toHaveLength(1)
  expect(await fetchText(`${await waitForAddress('Prometheus')}/metrics`)).toContain('# TYPE ')
  const debug = await waitForAddress('debug')
  await eventually(async () => {
    const profile = await fetch(`${debug}/debug/pprof/profile?seconds=1`) // 500 while no thread responds in time, on a busy machine
    expect([profile.status, new Uint8Array(await profile.arrayBuffer()).subarray(0, 2)]).toEqual([200, GZIP])
  })
  const meta = `${await waitForAddress('the monitor')}/api/v1/meta`
  await eventually(async () => expect(await fetchText(meta)).toContain('relay-site-monitor'))
  child.kill('SIGTERM')
  expect(await once(child, 'exit')).toEqual([0, null])
})

const GZIP = new Uint8Array([0x1f, 0x8b])

async function fetchText(url: string): Promise<string> {
  return (await fetch(url)).text()
}

describe('the monitor, installed', () => {
  test('has its changelog and the examples of its API', async () => {
    const from = (file: string) => JSON.stringify(join(folder, 'node_modules/sluice/dist/monitor/api', file))
    const code = `
      const { readChangelog } = await import(${from('changelog.js')})
      const { openApi } = await import(${from('schema/openapi.js')})
      const { paths } = openApi({ version: '1', isClosed: false })
      const { example } = paths['/api/v1/meta'].get.responses[200].content['application/json']
      console.log(readChangelog().at(-1).kind, example.service)`
    const { output } = await finish(start(process.execPath, ['--input-type=module', '--eval', code]))
    expect(output).toBe('added relay-site-monitor\n')
  })
})

describe('installed by npm under another Node, which leaves out the binary for Node 22', () => {
  const inPackage = (path: string) => join(folder, 'node_modules/sluice', path)
  const binaries = () => join(folder, 'node_modules/@uwsjs')
  const runInstallScript = (more = {}) =>
    finish(start(process.execPath, [inPackage('scripts/install.mjs')], { more }))

  beforeAll(() => renameSync(binaries(), `${binaries()}-away`))
  afterAll(() => renameSync(`${binaries()}-away`, binaries()))

  test('without its install script: one line names the command to run, and --version and --help work', async () => {
    const sluice = (arg: string) => finish(start(join(folder, 'node_modules/.bin/sluice'), [arg]))
    expect(await sluice('serve')).toMatchObject({
      code: 1,
      output:
        `sluice: uWebSockets.js is installed without its binary, @uwsjs/${process.platform}-${process.arch}-22. ` +
        `Run: node ${realpathSync(inPackage('scripts/install.mjs'))}\n`,
    })
    expect(await sluice('--version')).toMatchObject({
      code: 0,
      output: expect.stringMatching(/^\d+\.\d+\.\d+\n$/),
    })
    expect(await sluice('--help')).toMatchObject({
      code: 0,
      stdout: expect.stringContaining('usage: sluice'),
    })
  })

  test('without a registry: the install script fails, and its last line names what is missing', async () => {
    const unreachable = {
      npm_config_registry: 'http://127.0.0.1:9',
      npm_config_cache: join(folder, 'no-cache'),
    }
    const { code, output } = await runInstallScript({ ...unreachable, npm_config_fetch_retries: '0' })
    expect(code).toBe(1)
    expect(output).toContain('ECONNREFUSED')
    expect(output.trimEnd().split('\n').at(-1)).toMatch(
      /^sluice: npm could not install @uwsjs\/.+-22, see above\. Try again when it can\.$/,
    )
  })

  test('the install script adds it, also for npm install -g, and the service starts', async () => {
    const outer = { npm_config_global: 'true', npm_config_prefix: join(folder, 'elsewhere') }
    const more = { ...outer, npm_config_prefer_offline: 'true' }
    expect(await runInstallScript(more)).toEqual({ code: 0, output: '', stdout: '' })
    const child = start(join(folder, 'node_modules/.bin/sluice'), ['serve', '--example'], {
      more: { ...PRIVATE, MONITOR_ENABLED: 'false' },
    })
    onTestFinished(() => void child.kill('SIGKILL'))
    let log = ''
    for (const stream of [child.stdout!, child.stderr!])
      stream.on('data', (chunk) => {
        log += chunk
      })
    await eventually(() => expect(log).toContain('Ctrl-C stops it.'), START_MS_MAX)
    expect(log).toContain('\n  sluice client -dial_string ')
    expect(log).toContain('The rules are in node_modules/sluice/examples/config;')
    expect(log).not.toContain('scripts/sluice.mjs')
    child.kill('SIGTERM')
    expect(await once(child, 'exit')).toEqual([0, null])
  })
})
