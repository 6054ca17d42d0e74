/**
 * Used by the bootstrap and its tools: runs a program without showing its output, and prints messages.
 * Plain JavaScript for Node 18 and later.
 */
import { spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'

const OUTPUT_CHARS_MAX = 200_000 // of the end, where the cause of a failure is
const TAIL_LINES = 25

/** An error whose message has the cause and the remedy. It is printed without a stack. */
export class Remedy extends Error {
  name = 'Remedy'
}

/** On stderr, because stdout belongs to the program that starts next. */
export function say(line) {
  process.stderr.write(`sluice: ${line}\n`)
}

/** Resolves with the program's exit code and its output. The code of a missing program is 127. */
export function run(program, args, { msMax, env = process.env, cwd } = {}) {
  return new Promise((resolve) => {
    let output = ''
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: msMax })
    const end = () => child.kill() // Ctrl-C must not leave an installer running
    const addOutput = (chunk) => {
      output = (output + chunk).slice(-OUTPUT_CHARS_MAX)
    }
    const finish = (code) => {
      process.off('exit', end)
      resolve({ code, output })
    }
    process.on('exit', end)
    child.stdout.setEncoding('utf8').on('data', addOutput)
    child.stderr.setEncoding('utf8').on('data', addOutput)
    child.once('error', (error) => finish(error.code === 'ENOENT' ? 127 : 126))
    child.once('close', (code, signal) => {
      if (signal)
        addOutput(
          `\n${program} was ended by ${signal}${msMax ? `, at the latest after ${msMax / 1000} s` : ''}\n`,
        )
      finish(code ?? 1)
    })
  })
}

/** The last lines of a failed program's output. */
export function tail(output) {
  return output.trimEnd().split('\n').slice(-TAIL_LINES).join('\n')
}

export function isExecutable(path) {
  try {
    accessSync(path, constants.X_OK)
    return statSync(path).isFile()
  } catch {
    return false
  }
}
