/** Runs a program to its end. */
import { execFile } from 'node:child_process'

const OUTPUT_BYTES_MAX = 64 * 1024 * 1024 // beyond: the program is ended

export interface Output {
  code: number | null // null: it was not there, or ended by a signal
  output: string // stdout, then stderr
}

export function runProgram(
  program: string,
  args: string[],
  { cwd, ...env }: { cwd: string } & NodeJS.ProcessEnv,
): Promise<Output> {
  const options = { cwd, env: { ...process.env, ...env }, maxBuffer: OUTPUT_BYTES_MAX }
  return new Promise((resolve) => {
    const child = execFile(program, args, options, (error, stdout, stderr) =>
      resolve({
        code: child.exitCode,
        output: stdout + stderr + (child.exitCode === null ? error?.message : ''),
      }),
    )
  })
}
