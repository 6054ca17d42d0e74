/**
 * Starts the real service as a child process on free ports of 127.0.0.1, and always ends it.
 *
 *     const service = await startService({ rules: { 'limits.yaml': '…' }, env: { WORKERS: '2' } })
 *     … fetch(`${service.http}/json`) …
 *     await service.stop()                // SIGTERM; yields exit code and everything it logged
 *
 * The gRPC port is behind the default frontend, or the one that `frontend` says, or for a whole run
 *     SLUICE_FRONTEND=grpc-js vitest run test/system
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'

const SLUICE = fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const START_MAX_MS = 20_000
const STOP_MAX_MS = 40_000 // above DRAIN_TIMEOUT's default

export interface ServiceOptions {
  rules?: Record<string, string> // file name → YAML, put into the rules directory; none = no directory
  env?: Record<string, string>
  args?: string[]
  frontend?: 'http2' | 'grpc-js'
}

export interface Exit {
  code: number | null
  signal: NodeJS.Signals | null
  log: string
}

export class RunningService {
  readonly child: ChildProcess
  readonly rulesDirectory: string
  readonly exited: Promise<Exit>
  log = '' // standard error
  out = '' // standard output
  private hasExited = false

  constructor(child: ChildProcess, rulesDirectory: string) {
    this.child = child
    this.rulesDirectory = rulesDirectory
    child.stderr!.setEncoding('utf8').on('data', (text) => {
      this.log += text
    })
    child.stdout!.setEncoding('utf8').on('data', (text) => {
      this.out += text
    })
    this.exited = once(child, 'close').then(([code, signal]) => {
      this.hasExited = true
      return { code, signal, log: this.log }
    })
  }

  /** `127.0.0.1:port` as the log's `Listening for <name> on '…'` has it; name is gRPC, HTTP or debug. */
  address(name: string): string {
    const found = new RegExp(`Listening for ${name} on '([^']+)'`).exec(this.log)
    if (!found) throw new Error(`no line "Listening for ${name}" in:\n${this.log}`)
    return found[1]
  }

  get http(): string {
    return `http://${this.address('HTTP')}`
  }

  get debug(): string {
    return `http://${this.address('debug')}`
  }

  /** Resolves when the log holds the text; rejects with the whole log when it ends or takes too long. */
  async logged(text: string, maxMs = START_MAX_MS): Promise<void> {
    const until = Date.now() + maxMs
    while (!this.log.includes(text)) {
      if (this.hasExited || Date.now() > until)
        throw new Error(`"${text}" was not logged:\n${this.log}${this.out}`)
      await sleep(10)
    }
  }

  /** Sum over all workers of each counter, as `/stats` prints it. */
  async stats(): Promise<Record<string, number>> {
    const text = await (await fetch(`${this.debug}/stats`)).text()
    const lines = text.trimEnd().split('\n')
    return Object.fromEntries(
      lines.map((line) => [line.slice(0, line.lastIndexOf(': ')), Number(line.split(': ').at(-1))]),
    )
  }

  async stop(signal: NodeJS.Signals = 'SIGTERM'): Promise<Exit> {
    if (!this.hasExited) this.child.kill(signal)
    const killer = setTimeout(() => this.child.kill('SIGKILL'), STOP_MAX_MS)
    const exit = await this.exited
    clearTimeout(killer)
    return exit
  }
}

/** Spawns the service without waiting for its ports: for starts that are expected to fail or to wait. */
export function spawnService(options: ServiceOptions): RunningService {
  const { rules, env = {}, args = ['serve'], frontend = process.env.SLUICE_FRONTEND } = options
  const root = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  for (const [name, text] of Object.entries(rules ?? {})) {
    const path = join(root, 'config', name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  const quiet = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR)$/.test(name)),
  )
  const child = spawn(process.execPath, [SLUICE, ...args], {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: {
      ...quiet,
      NODE_ENV: 'test',
      HOST: '127.0.0.1',
      GRPC_HOST: '127.0.0.1',
      DEBUG_HOST: '127.0.0.1',
      PORT: '0',
      GRPC_PORT: '0',
      DEBUG_PORT: '0',
      WORKERS: '1',
      DISABLE_STATS: 'true', // none that nobody asked for
      RUNTIME_ROOT: root,
      RUNTIME_WATCH_ROOT: 'false',
      ...(frontend && { GRPC_FRONTEND: frontend }),
      ...env,
    },
  })
  const service = new RunningService(child, join(root, 'config'))
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  void service.exited.then(() => {
    process.off('exit', end)
    rmSync(root, { recursive: true, force: true })
  })
  return service
}

/** The service, listening. Ends with the test that started it, unless it was stopped before. */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  const service = spawnService(options)
  onTestFinished(async () => {
    await service.stop('SIGKILL')
  })
  await service.logged("Listening for HTTP on '")
  return service
}

/** One `POST /json`; yields the HTTP status and the body. */
export async function postJson(
  service: RunningService,
  body: unknown,
): Promise<{ status: number; text: string }> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(`${service.http}/json`, { method: 'POST', body: text })
  return { status: response.status, text: await response.text() }
}
