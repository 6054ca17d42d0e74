/**
 * Starts the real service as a child process on free ports of 127.0.0.1. It never outlives the test process.
 *
 *     const service = await startService({ rules: { 'limits.yaml': '…' }, env: { WORKERS: '2' } })
 *     … fetch(`${service.http}/json`) …
 *     await service.stop()                // SIGTERM; resolves to the exit code and everything it logged
 *
 * A start costs 0.45 s of processor time, so tests that do not depend on a fresh service share one (test/helpers/shared.ts).
 * `frontend` chooses the gRPC frontend, by default that of the service; for a whole run
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

/** Compiled by build.ts; the benchmarks run without it. */
const SLUICE =
  process.env.SLUICE_TEST_SCRIPT ?? fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const { SLUICE_TEST_COMPILE_CACHE: COMPILE_CACHE } = process.env
const LOG_WAIT_MS_MAX = 90_000 // generous: a busy machine must not fail a test
const STOP_MAX_MS = 40_000 // above DRAIN_TIMEOUT's default

export interface ServiceOptions {
  rules?: Record<string, string> // file name → YAML, put into the rules directory; none = no directory
  env?: Record<string, string>
  args?: string[]
  wrapper?: readonly string[] // a program and its arguments that runs the service as its last ones, by exec
  frontend?: 'http2' | 'grpc-js'
  hasOwnSession?: boolean // as in test/helpers/redis.ts
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

  /** `127.0.0.1:port` of the log line `Listening for <name> on '…'`; the name is gRPC, HTTP, debug, … */
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

  /** Resolves when the log contains the text. Rejects with the whole log when the process ends or after `timeoutMs`. */
  async logged(text: string, timeoutMs = LOG_WAIT_MS_MAX): Promise<void> {
    const endMs = Date.now() + timeoutMs
    while (!this.log.includes(text)) {
      if (this.hasExited || Date.now() > endMs)
        throw new Error(`"${text}" was not logged:\n${this.log}${this.out}`)
      await sleep(5)
    }
  }

  /** Every counter of `/stats`, each the sum over all workers. */
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

/** Does not wait for its ports: for starts that are expected to fail or to wait. The caller stops the service. */
export function spawnService(options: ServiceOptions): RunningService {
  const { rules, env = {}, args = ['serve'], wrapper = [], frontend = process.env.SLUICE_FRONTEND } = options
  const root = mkdtempSync(join(tmpdir(), 'sluice-test-'))
  for (const [name, text] of Object.entries(rules ?? {})) {
    const path = join(root, 'config', name)
    mkdirSync(dirname(path), { recursive: true })
    writeFileSync(path, text)
  }
  const inherited = Object.fromEntries(
    Object.entries(process.env).filter(([name]) => /^(PATH|HOME|TMPDIR)$/.test(name)),
  )
  const [program, ...programArgs] = [...wrapper, process.execPath, SLUICE, ...args]
  const child = spawn(program, programArgs, {
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    detached: options.hasOwnSession,
    env: {
      ...inherited,
      ...(COMPILE_CACHE && { NODE_COMPILE_CACHE: COMPILE_CACHE }),
      NODE_ENV: 'test',
      HOST: '127.0.0.1',
      GRPC_HOST: '127.0.0.1',
      DEBUG_HOST: '127.0.0.1',
      PORT: '0',
      GRPC_PORT: '0',
      DEBUG_PORT: '0',
      WORKERS: '1',
      DISABLE_STATS: 'true', // no export; `/stats` works
      RUNTIME_ROOT: root,
      RUNTIME_WATCH_ROOT: 'false',
      ...(frontend && { GRPC_FRONTEND: frontend }),
      ...env,
    },
  })
  const service = new RunningService(child, join(root, 'config'))
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  void service.exited.then(() => {
    process.off('exit', kill)
    rmSync(root, { recursive: true, force: true })
  })
  return service
}

/** Resolves when the service listens. It is stopped after the test, unless it has ended before. */
export async function startService(options: ServiceOptions): Promise<RunningService> {
  const service = spawnService(options)
  onTestFinished(async () => {
    await service.stop('SIGKILL')
  })
  await service.logged("Listening for HTTP on '")
  return service
}

/** One `POST /json`. An object is sent as JSON, a string as it is. */
export async function postJson(
  service: RunningService,
  body: unknown,
): Promise<{ status: number; text: string }> {
  const text = typeof body === 'string' ? body : JSON.stringify(body)
  const response = await fetch(`${service.http}/json`, { method: 'POST', body: text })
  return { status: response.status, text: await response.text() }
}
