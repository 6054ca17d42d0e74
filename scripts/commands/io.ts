/**
 * What a command uses of its process: streams, environment, signals. Tests pass values of their own and run commands in
 * process. Paths are relative to the working directory of the process.
 */
import { fstatSync, writeFileSync } from 'node:fs'
import { type LogDestination, openStandardError } from './log.ts'

export interface Io {
  stdout: TextStream
  stderr: TextStream
  env: NodeJS.ProcessEnv
  /** Calls `listener` for each SIGTERM, SIGINT and SIGHUP, which then do not end the process by themselves. */
  onSignal(listener: (name: NodeJS.Signals) => void): void
  openLog(): LogDestination
}

export interface TextStream {
  write(text: string): unknown
  isTTY?: boolean
  columns?: number
}

const SIGNALS = ['SIGTERM', 'SIGINT', 'SIGHUP'] as const

export function processIo(): Io {
  const { stdout, stderr, env } = process
  const isFile = fstatSync(stdout.fd).isFile()
  // A file receives all of the text, or writing fails: the stream ignores that a full disk takes only a part.
  const write = (text: string) => (isFile ? writeFileSync(stdout.fd, text) : stdout.write(text))
  return {
    stdout: { write, isTTY: stdout.isTTY, columns: stdout.columns },
    stderr,
    env,
    onSignal: (listener) => {
      for (const name of SIGNALS) process.on(name, () => listener(name))
    },
    openLog: openStandardError,
  }
}
