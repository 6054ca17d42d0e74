/**
 * The launcher: under which process the service runs, and what ends it. Another Node is this one under another version
 * number, with or without the ability to exec.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const LAUNCHER = join(ROOT, 'scripts/sluice.mjs')
const MAX_MS = 60_000 // 1 s is usual

vi.setConfig({ testTimeout: 2 * MAX_MS })

let folder: string

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), 'launcher-'))
  mkdirSync(join(folder, 'config'))
})

afterAll(() => rmSync(folder, { recursive: true, force: true }))

// npm exports its settings as variables, which the npm started here must not inherit.
const inherited = Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR)$/.test(name))

const env = {
  ...Object.fromEntries(inherited),
  ...{ HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' },
  ...{ PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0', WORKERS: '1', DISABLE_STATS: 'true', LOG_LEVEL: 'info' },
  ...{ RUNTIME_WATCH_ROOT: 'false', MONITOR_ENABLED: 'false' },
}

/** Arguments that make this Node `version`. */
function asNode(version: string, { canExec = true } = {}): string[] {
  const preload = join(folder, `node-${version}-${canExec}.cjs`)
  const lines = [
    `Object.defineProperty(process, 'versions', { value: { ...process.versions, node: '${version}' } })`,
    canExec ? '' : 'process.execve = undefined',
  ]
  writeFileSync(preload, lines.join('\n'))
  return ['--require', preload]
}

// biome-ignore format: a table
const NODES = {
  'Node 22':                  () => asNode(process.versions.node),
  'a Node that can exec':     () => asNode('24.1.0'),
  'a Node that cannot exec':  () => asNode('20.20.2', { canExec: false }),
} as const

class Started {
  readonly child: ChildProcess
  readonly exited: Promise<number | NodeJS.Signals> // and everything it printed is in the log
  log = ''

  /** In a process group of its own, as a shell starts it. */
  constructor(program: string, args: string[], more: Record<string, string> = {}) {
    const options = { cwd: ROOT, env: { ...env, RUNTIME_ROOT: folder, ...more }, detached: true }
    this.child = spawn(program, args, options)
    for (const stream of [this.child.stdout!, this.child.stderr!]) {
      stream.setEncoding('utf8').on('data', (text) => {
        this.log += text
      })
    }
    this.exited = new Promise((resolve) => this.child.on('close', (code, signal) => resolve(code ?? signal!)))
    onTestFinished(() => void this.child.kill('SIGTERM'))
  }

  /** The HTTP port, once it is open. */
  async port(): Promise<number> {
    const line = /Listening for HTTP on '127\.0\.0\.1:(\d+)'/
    await expect.poll(() => this.log, { timeout: MAX_MS }).toMatch(line)
    return Number(line.exec(this.log)![1])
  }

  signalGroup(signal: NodeJS.Signals): void {
    process.kill(-this.child.pid!, signal)
  }
}

function isOpen(port: number): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => resolve(true)).once('error', () => resolve(false))
    socket.once('connect', () => socket.destroy())
  })
}

async function expectClosed(port: number): Promise<void> {
  await expect.poll(() => isOpen(port), { timeout: MAX_MS }).toBe(false)
}

for (const [name, args] of Object.entries(NODES)) {
  describe(`started by ${name}`, () => {
    const start = (more = {}) => new Started(process.execPath, [...args(), LAUNCHER, 'serve'], more)

    test('SIGKILL of the process that was started frees the ports', async () => {
      const started = start()
      const port = await started.port()
      started.child.kill('SIGKILL')
      await expectClosed(port)
    })

    test('a signal to its group arrives once', async () => {
      const started = start({ DRAIN_DELAY: '1s' }) // it still runs when a second one would arrive
      const port = await started.port()
      started.signalGroup('SIGINT')
      expect(await started.exited).toBe(0)
      expect(started.log.match(/Received signal .*(?=")/g)).toEqual([
        'Received signal SIGINT, initiating shutdown',
      ])
      await expectClosed(port)
    })

    test('a signal to the process alone arrives, and its exit code is the one of the service', async () => {
      const started = start()
      await started.port()
      started.child.kill('SIGTERM')
      expect(await started.exited).toBe(0)
      expect(started.log).toContain('Received signal SIGTERM, initiating shutdown')
      const refused = new Started(process.execPath, [...args(), LAUNCHER, 'serve', '--no-such-flag'])
      expect(await refused.exited).toBe(2)
    })
  })
}

describe('npm start', () => {
  const start = () => new Started('npm', ['start', '--ignore-scripts'], { RUNTIME_SUBDIRECTORY: '' })

  test('SIGTERM of npm ends the service in order', async () => {
    const started = start()
    const port = await started.port()
    started.child.kill('SIGTERM')
    expect(await started.exited).toBe(0)
    expect(started.log).toContain('Received signal SIGTERM, initiating shutdown')
    await expectClosed(port)
  })

  test('SIGKILL of npm ends the service, too', async () => {
    const started = start()
    const port = await started.port()
    started.child.kill('SIGKILL')
    await expectClosed(port)
    await started.exited
    expect(started.log).toContain('npm has ended without a signal to this process, initiating shutdown')
  })
})

describe('without any dependency', () => {
  let bare: string

  beforeAll(() => {
    bare = mkdtempSync(join(tmpdir(), 'bare-'))
    for (const file of ['package.json', 'scripts/sluice.mjs', 'scripts/runtime.mjs', 'scripts/usage.txt']) {
      mkdirSync(dirname(join(bare, file)), { recursive: true })
      cpSync(join(ROOT, file), join(bare, file))
    }
  })

  afterAll(() => rmSync(bare, { recursive: true, force: true }))

  // biome-ignore format: a table
  const cases = [
    // arguments             exit   prints
    [['--version'],          0,     /^\d+\.\d+\.\d+\n$/],
    [['-v'],                 0,     /^\d+\.\d+\.\d+\n$/],
    [['--help'],             0,     /usage: sluice <command>/],
    [['help'],               0,     /usage: sluice <command>/],
    [['serve', '--help'],    0,     /usage: sluice <command>/],
    [['serve'],              1,     /^sluice: .+/],
  ] as const
  for (const [node, launchArgs] of Object.entries(NODES)) {
    for (const [args, exit, prints] of cases) {
      test(`${node}: sluice ${args.join(' ')} ends with ${exit}`, async () => {
        const started = new Started(process.execPath, [
          ...launchArgs(),
          join(bare, 'scripts/sluice.mjs'),
          ...args,
        ])
        expect(await started.exited, started.log).toBe(exit)
        expect(started.log).toMatch(prints)
      })
    }
  }

  test('the remedy is one line', async () => {
    const inBare = [join(bare, 'scripts/sluice.mjs'), 'serve']
    const under22 = new Started(process.execPath, inBare)
    const under24 = new Started(process.execPath, [...asNode('24.1.0'), ...inBare])
    await Promise.all([under22.exited, under24.exited])
    expect(under22.log).toBe(
      `sluice: uWebSockets.js is installed without its binary, @uwsjs/${process.platform}-${process.arch}-22. \
Run: node ${join(bare, 'scripts/install.mjs')}\n`,
    )
    expect(under24.log).toMatch(
      /^sluice: needs Node 22\.18 or a newer 22, and this is v.+\. npm installs one unless optional .*\n$/,
    )
  })
})
