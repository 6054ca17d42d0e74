#!/usr/bin/env node
/**
 * The command `sluice`, wherever it lies and whatever Node starts it.
 *
 *     checkout: scripts/sluice.ts       package: dist/scripts/sluice.js
 *
 *     this Node fits ──► import it, same process
 *     it does not    ──► run it under the Node of the package `node`; stdio, signals and exit code pass through
 *
 * Fits means Node 22.18 or a newer 22: the sources need that, and uWebSockets.js has a binary per Node major, of which
 * npm installs only the one for the Node it runs under. Plain JavaScript for Node 18 and later.
 */
import { spawn } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const MAJOR = 22
const MINOR_MIN = 18

const require = createRequire(import.meta.url)
const source = new URL('./sluice.ts', import.meta.url)
const entry = existsSync(source) ? source : new URL('../dist/scripts/sluice.js', import.meta.url)

const [major, minor] = process.versions.node.split('.').map(Number)
const isFitting = major === MAJOR && minor >= MINOR_MIN
const node = isFitting ? process.execPath : nodeOfPackage()
const fault = faultOf()

if (fault) {
  process.stderr.write(`sluice: ${fault}\n`)
  process.exitCode = 1
} else if (isFitting) {
  await import(entry)
} else {
  passThrough(spawn(node, [fileURLToPath(entry), ...process.argv.slice(2)], { stdio: 'inherit' }))
}

/** The binary that the package `node` installed beside us; undefined when it is not there. */
function nodeOfPackage() {
  try {
    const manifest = require.resolve('node/package.json')
    const bin = JSON.parse(readFileSync(manifest, 'utf8')).bin.node
    const path = join(dirname(manifest), bin)
    return existsSync(path) ? path : undefined
  } catch {
    return undefined
  }
}

/** What is missing, and the one line that mends it; undefined when nothing is. */
function faultOf() {
  const again =
    entry === source
      ? 'Run: node scripts/bootstrap.mjs'
      : `Where you ran npm install, run: npx --yes --package=node@${MAJOR} -- sh -c 'node "$npm_execpath" install'`
  if (!node) {
    return `needs Node ${MAJOR}.${MINOR_MIN} or a newer ${MAJOR}, this is ${process.version}, and the one of the package \
"node" is not installed. ${again}`
  }
  if (!hasBinary()) return `uWebSockets.js is installed without its binary for Node ${MAJOR}. ${again}`
  return undefined
}

function hasBinary() {
  try {
    const uws = createRequire(require.resolve('uWebSockets.js'))
    return Boolean(uws.resolve(`@uwsjs/${process.platform}-${process.arch}-${MAJOR}`))
  } catch {
    return false
  }
}

function passThrough(child) {
  // A terminal sends Ctrl-C to both of us, a supervisor only to this process; so a signal may arrive there twice.
  for (const signal of ['SIGTERM', 'SIGINT', 'SIGHUP']) process.on(signal, () => child.kill(signal))
  child.on('error', (error) => {
    process.stderr.write(`sluice: ${node} cannot be run: ${error.message}\n`)
    process.exitCode = 1
  })
  child.on('close', (code, signal) => {
    process.exit(code ?? 128 + constants.signals[signal]) // as a shell reports it
  })
}
