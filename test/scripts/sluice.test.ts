/**
 * The launcher: the process in which the service runs, and what ends it. Another Node is this one with another version
 * number, with or without the ability to exec.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { cpSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const LAUNCHER = join(ROOT, 'scripts/sluice.mjs')
const WAIT_MS_MAX = 60_000 // 1 s is usual

vi.setConfig({ testTimeout: 2 * WAIT_MS_MAX })

const folder = makeTemporaryFolder()
mkdirSync(join(folder, 'config'))

// npm exports its settings as variables, which the npm started here must not inherit.
const inherited = Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR)$/.test(name))

const env = {
  ...Object.fromEntries(inherited),
  ...{ HOST: '127.0.0.1', GRPC_HOST: '127.0.0.1', DEBUG_HOST: '127.0.0.1' },
  ...{ PORT: '0', GRPC_PORT: '0', DEBUG_PORT: '0', WORKERS: '1', DISABLE_STATS: 'true', LOG_LEVEL: 'info' },
  ...{ RUNTIME_WATCH_ROOT: 'false', MONITOR_ENABLED: 'false' },
}

/** Arguments with which this Node reports `version`. */
function pretendNode(version: string, { canExec = true } = {}): string[] {
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
  'Node 22':                  () => pretendNode(process.versions.node),
  'a Node that can exec':     () => pretendNode('24.1.0'),
  'a Node that cannot exec':  () => pretendNode('20.20.2', { canExec: false }),
} as const

class StartedProcess {
  readonly child: ChildProcess
  readonly exited: Promise<number | NodeJS.Signals> // after everything it printed is in the log
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
  async waitForPort(): Promise<number> {
    const line = /Listening for HTTP on '127\.0\.0\.1:(\d+)'/
    await eventually(() => expect(this.log).toMatch(line), WAIT_MS_MAX)
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
  await eventually(async () => expect(await isOpen(port)).toBe(false), WAIT_MS_MAX)
}

for (const [name, args] of Object.entries(NODES)) {
  describe(`started by ${name}`, () => {
    const start = (more = {}) => new StartedProcess(process.execPath, [...args(), LAUNCHER, 'serve'], more)

    test('SIGKILL of the process that was started frees the ports', async () => {
      const started = start()
      const port = await started.waitForPort()
      started.child.kill('SIGKILL')
      await expectClosed(port)
    })

    test('a signal to its group arrives once', async () => {
      const started = start({ DRAIN_DELAY: '300ms' }) // it still runs when a second signal would arrive
      const port = await started.waitForPort()
      started.signalGroup('SIGINT')
      expect(await started.exited).toBe(0)
      expect(started.log.match(/Received signal .*(?=")/g)).toEqual([
        'Received signal SIGINT, initiating shutdown',
      ])
      await expectClosed(port)
    })

    test('a signal to the process alone arrives, and its exit code is the one of the service', async () => {
      const started = start()
      await started.waitForPort()
      started.child.kill('SIGTERM')
      expect(await started.exited).toBe(0)
      expect(started.log).toContain('Received signal SIGTERM, initiating shutdown')
      const refused = new StartedProcess(process.execPath, [...args(), LAUNCHER, 'serve', '--no-such-flag'])
      expect(await refused.exited).toBe(2)
    })
  })
}

test('a closed terminal ends a Node that cannot exec by SIGHUP: Node 20 aborts when it exits without its terminal', async () => {
  const status = join(folder, 'status')
  const command = [process.execPath, ...NODES['a Node that cannot exec'](), LAUNCHER, 'serve']
  const launch = command.map((word) => `'${word}'`).join(' ')
  // Like an interactive shell: it forwards SIGHUP. The first `wait` ends by the signal, the second with the process.
  const shell = `${launch} & pid=$!; trap 'kill -HUP $pid' HUP; wait $pid; wait $pid; echo $? > ${status}`
  const terminal = new StartedProcess('script', ['-qc', shell, '/dev/null'])
  const port = await terminal.waitForPort()
  terminal.child.kill('SIGKILL')
  await eventually(() => expect(readFileSync(status, 'utf8')).toBe('129\n'), WAIT_MS_MAX)
  await expectClosed(port)
})

describe('npm start', () => {
  const start = () => new StartedProcess('npm', ['start', '--ignore-scripts'], { RUNTIME_SUBDIRECTORY: '' })

  test('SIGTERM of npm ends the service in order', async () => {
    const started = start()
    const port = await started.waitForPort()
    started.child.kill('SIGTERM')
    expect(await started.exited).toBe(0)
    expect(started.log).toContain('Received signal SIGTERM, initiating shutdown')
    await expectClosed(port)
  })

  test('SIGKILL of npm ends the service as well', async () => {
    const started = start()
    const port = await started.waitForPort()
    started.child.kill('SIGKILL')
    await expectClosed(port)
    await started.exited
    expect(started.log).toContain('npm has ended without a signal to this process, initiating shutdown')
  })
})

describe('without any dependency', () => {
  const bare = makeTemporaryFolder()
  for (const file of ['package.json', 'scripts/sluice.mjs', 'scripts/runtime.mjs', 'scripts/usage.txt']) {
    mkdirSync(dirname(join(bare, file)), { recursive: true })
    cpSync(join(ROOT, file), join(bare, file))
  }

  // biome-ignore format: a table
  const cases = [
    // arguments             exit   output
    [['--version'],          0,     /^\d+\.\d+\.\d+\n$/],
    [['-v'],                 0,     /^\d+\.\d+\.\d+\n$/],
    [['--help'],             0,     /usage: sluice <command>/],
    [['help'],               0,     /usage: sluice <command>/],
    [['serve', '--help'],    0,     /usage: sluice <command>/],
    [['serve'],              1,     /^sluice: .+/],
  ] as const
  for (const node of ['Node 22', 'a Node that cannot exec'] as const) {
    test(`${node}: version and help are printed, and the service is refused`, async () => {
      const started = cases.map(([args]) => {
        const launcher = join(bare, 'scripts/sluice.mjs')
        return new StartedProcess(process.execPath, [...NODES[node](), launcher, ...args])
      })
      for (const [index, [args, exit, output]] of cases.entries()) {
        const { exited } = started[index]
        expect([args, await exited]).toEqual([args, exit])
        expect(started[index].log).toMatch(output)
      }
    })
  }

  test('the remedy is one line', async () => {
    const inBare = [join(bare, 'scripts/sluice.mjs'), 'serve']
    const under22 = new StartedProcess(process.execPath, inBare)
    const under24 = new StartedProcess(process.execPath, [...pretendNode('24.1.0'), ...inBare])
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
