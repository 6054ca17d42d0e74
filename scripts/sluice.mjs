#!/usr/bin/env node
/**
 * The command `sluice`, in a checkout and in an installed package, under Node 18 or later. It runs the entry
 * (scripts/sluice.ts or dist/scripts/sluice.js) under Node 22, so that the started process is the one that serves:
 *
 *     this is Node 22.18 or a newer 22 ──► import the entry
 *     this Node can exec (22.15, 23.11 and later, not Windows) ──► become the installed Node 22
 *     otherwise ──► run it as a child, which gets each signal once and ends when this process does
 *
 * The child has a process group of its own. A signal to the group of this process, such as Ctrl-C, therefore reaches
 * this process only and is forwarded once. A closed IPC channel tells the child that this process is gone, even by
 * SIGKILL. Cost: Ctrl-Z does not stop the child.
 */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { constants } from 'node:os'
import { isatty } from 'node:tty'
import { fileURLToPath } from 'node:url'
import { hasUwsBinary, installedNode, isFitting, MAJOR, MINOR_MIN, uwsBinary } from './runtime.mjs'

const IS_WINDOWS = process.platform === 'win32'
const FORWARDED = IS_WINDOWS ? [] : ['SIGTERM', 'SIGINT', 'SIGHUP'] // a console signals all its processes; kill() ends one
const STDIO = [0, 1, 2]
const LAUNCHED = 'SLUICE_LAUNCHED' // set for the child only

const source = new URL('./sluice.ts', import.meta.url)
const isCheckout = existsSync(source)
const entry = isCheckout ? source : new URL('../dist/scripts/sluice.js', import.meta.url)
const args = process.argv.slice(2)

const node = isFitting() ? process.execPath : installedNode()
const fault = describeFault()

if (fault) printFault(fault)
else if (isFitting()) {
  if (process.env[LAUNCHED]) endWithLauncher()
  await import(entry)
} else if (process.execve && !IS_WINDOWS) {
  process.execve(node, [node, fileURLToPath(entry), ...args], process.env)
} else {
  passThrough()
}

/** What is missing, and the command that adds it; undefined if nothing is. */
function describeFault() {
  const script = isCheckout ? './dev/bootstrap.mjs' : './install.mjs'
  const command = `Run: node ${fileURLToPath(new URL(script, import.meta.url))}`
  if (!node) {
    const why = `needs Node ${MAJOR}.${MINOR_MIN} or a newer ${MAJOR}, and this is ${process.version}`
    return isCheckout
      ? `${why}. ${command}`
      : `${why}. npm installs one unless optional dependencies are omitted; install again without --omit=optional.`
  }
  if (!hasUwsBinary()) return `uWebSockets.js is installed without its binary, ${uwsBinary()}. ${command}`
  return undefined
}

/** Version and usage are available whatever is missing. */
function printFault(fault) {
  const [first = ''] = args
  if (/^--?v(ersion)?$/.test(first)) {
    process.stdout.write(`${JSON.parse(read('../package.json')).version}\n`)
    return
  }
  const isHelp = first === 'help' || args.some((arg) => /^--?h(elp)?$/.test(arg))
  if (isHelp) process.stdout.write(read('./usage.txt'))
  else process.exitCode = 1
  process.stderr.write(`sluice: ${fault}\n`)
}

function read(relative) {
  return readFileSync(new URL(relative, import.meta.url), 'utf8')
}

function passThrough() {
  const child = spawn(node, [fileURLToPath(import.meta.url), ...args], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    detached: !IS_WINDOWS,
    env: { ...process.env, [LAUNCHED]: '1' },
  })
  for (const signal of FORWARDED) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    process.stderr.write(`sluice: ${node} cannot be run: ${error.message}\n`)
    process.exitCode = 1
  })
  const terminals = STDIO.filter((fd) => isatty(fd))
  child.on('close', (code, signal) => {
    // Node resets its terminals when it exits, and aborts if one of them has been closed.
    if (terminals.some((fd) => !isatty(fd))) endBySignal()
    else process.exit(code ?? 128 + constants.signals[signal]) // as a shell reports it
  })
}

/** As by a closed terminal without this process's handlers. */
function endBySignal() {
  process.removeAllListeners('SIGHUP')
  process.kill(process.pid, 'SIGHUP')
}

/** Immediately, without an orderly shutdown: after SIGKILL of the launcher its ports are expected to be free. */
function endWithLauncher() {
  delete process.env[LAUNCHED]
  const end = () => process.kill(process.pid, 'SIGKILL')
  process.once('disconnect', end)
  if (!process.connected) end()
  process.channel?.unref()
}
