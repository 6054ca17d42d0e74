/**
 * Runs a command of `sluice` in this process, with what it uses of a process injected.
 *
 *     await runCommand(['client', '-domain', 'shop'], { PATH: '/bin' })     → { code: 0, out: 'Flag: …', err: '' }
 */
import type { Io } from '../../scripts/commands/io.ts'
import { run } from '../../scripts/commands/run.ts'

export interface CommandResult {
  code: number | null
  out: string
  err: string // messages and log lines
}

export interface CapturedIo extends Io {
  readonly out: string
  readonly err: string
  sendSignal(name: NodeJS.Signals): void
}

export function captureIo(env: NodeJS.ProcessEnv = {}): CapturedIo {
  const listeners: ((name: NodeJS.Signals) => void)[] = []
  let out = ''
  let err = ''
  const stdout = {
    write(text: string) {
      out += text
    },
  }
  const stderr = {
    write(text: string) {
      err += text
    },
  }
  return {
    ...{ stdout, stderr, env },
    openLog: () => stderr,
    onSignal: (listener) => listeners.push(listener),
    sendSignal: (name) => {
      for (const listener of listeners) listener(name)
    },
    get out() {
      return out
    },
    get err() {
      return err
    },
  }
}

export async function runCommand(args: string[], env: NodeJS.ProcessEnv = {}): Promise<CommandResult> {
  const io = captureIo(env)
  const code = await run(args, io)
  return { code, out: io.out, err: io.err }
}
