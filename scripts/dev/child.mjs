/**
 * What the bootstrap and its tools share: run a program to its end without showing what it says, and speak to a person.
 * Plain JavaScript for Node 18 and later.
 */
import { spawn } from 'node:child_process'
import { accessSync, constants, statSync } from 'node:fs'

const OUTPUT_CHARS_MAX = 200_000 // the end of it; what a person needs stands in the last lines
const TAIL_LINES = 25

/** An error whose message says it all: what is wrong and what to do. Printed without a stack. */
export class Remedy extends Error {
  name = 'Remedy'
}

/** One line to the person at the terminal. On stderr, because stdout belongs to the program that starts next. */
export function say(line) {
  process.stderr.write(`sluice: ${line}\n`)
}

/** Ends with the program's exit code and everything it said. A program that is not there ends with code 127. */
export function run(program, args, { msMax, env = process.env, cwd } = {}) {
  return new Promise((resolve) => {
    let output = ''
    const child = spawn(program, args, { cwd, env, stdio: ['ignore', 'pipe', 'pipe'], timeout: msMax })
    const end = () => child.kill() // a person's Ctrl-C must not leave an installer running behind the prompt
    const hear = (chunk) => {
      output = (output + chunk).slice(-OUTPUT_CHARS_MAX)
    }
    const finish = (code) => {
      process.off('exit', end)
      resolve({ code, output })
    }
    process.on('exit', end)
    child.stdout.setEncoding('utf8').on('data', hear)
    child.stderr.setEncoding('utf8').on('data', hear)
    child.once('error', (error) => finish(error.code === 'ENOENT' ? 127 : 126))
    child.once('close', (code, signal) => {
      if (signal)
        hear(`\n${program} was ended by ${signal}${msMax ? `, at the latest after ${msMax / 1000} s` : ''}\n`)
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
