/**
 * The processes of the demo, the monitor and the agent: started together with their environments, ended together. The channel
 * to each tells it by closing that the demo is gone, whatever ended it (child.ts).
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { fileURLToPath } from 'node:url'
import { resolveModule } from '../../../engine/runtime/module-url.ts'

export const END_MS_MAX = 15_000 // beyond, they are killed: a drain of 5 s and a flush of 5 s come before
const CHILD = fileURLToPath(resolveModule('./child.ts', import.meta.url))

export class DemoProcesses {
  private readonly children: ChildProcess[] = []

  /** Their logs go to the terminal. Resolves with the exit code when it has ended, by a signal with 1. */
  start(args: readonly string[], env: Record<string, string>): Promise<number> {
    const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', CHILD, ...args], {
      env: { ...process.env, ...env },
      stdio: ['ignore', 'inherit', 'inherit', 'ipc'],
    })
    this.children.push(child)
    return new Promise((resolve, reject) => {
      child.once('error', reject)
      child.once('exit', (code) => resolve(code ?? 1))
    })
  }

  kill(signal: NodeJS.Signals): void {
    for (const child of this.running) child.kill(signal)
  }

  /** Ends all in order, and resolves when none is left. */
  async end(): Promise<void> {
    const ended = this.running.map((child) => once(child, 'exit'))
    this.kill('SIGTERM')
    const timer = setTimeout(() => this.kill('SIGKILL'), END_MS_MAX)
    await Promise.all(ended)
    clearTimeout(timer)
  }

  private get running(): ChildProcess[] {
    return this.children.filter(
      ({ pid, exitCode, signalCode }) => pid !== undefined && exitCode === null && signalCode === null,
    )
  }
}
