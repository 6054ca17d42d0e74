/**
 * The API key for a site: one line in the file named by `key_file`, sent to the site as a Bearer token (spec 8.1).
 *
 * A catalogue may come from another party and names local files, so the path must be below the catalogue's folder, also
 * after following links. The file is read for each full probe: a new key needs no restart.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises'
import { isAbsolute, normalize, relative, resolve, sep } from 'node:path'

const KEY_CHARS_MAX = 1_024

export interface KeyFile {
  folder: string // the catalogue's
  name: string // below it
}

/** Checks the text only; links are followed and checked when the file is read. */
export function isBelowFolder(name: string): boolean {
  return !isAbsolute(name) && !isOutside(normalize(name))
}

/** Throws with the reason, which never contains text of the file. */
export async function readKey({ folder, name }: KeyFile): Promise<string> {
  const [root, path] = await Promise.all([realpath(folder), realpath(resolve(folder, name))])
  const check = (found: string) => {
    if (isOutside(relative(root, found))) throw new Error(`${name} leads out of the catalogue's folder`)
  }
  check(path)
  // Opening a pipe must not wait for its other end.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    // A folder of the path may have become a link meanwhile. Only Linux reports the path of an open file.
    if (process.platform === 'linux') check(await readlink(`/proc/self/fd/${file.fd}`))
    return await readKeyLine(file, name)
  } finally {
    await file.close()
  }
}

async function readKeyLine(file: FileHandle, name: string): Promise<string> {
  if (!(await file.stat()).isFile()) throw new Error(`${name} is not a file`)
  const bytes = Buffer.alloc(KEY_CHARS_MAX + 3) // with CR LF, and one byte to notice a longer one
  const { bytesRead } = await file.read(bytes, 0, bytes.length, 0)
  const key = bytes.toString('latin1', 0, bytesRead).trim()
  if (key.length <= KEY_CHARS_MAX && /^[\x21-\x7e]+$/.test(key)) return key
  throw new Error(`${name} has no key: one line of at most ${KEY_CHARS_MAX} visible ASCII characters`)
}

function isOutside(path: string): boolean {
  return path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)
}
