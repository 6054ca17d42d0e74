/**
 * The key of a site: one line in a file that `key_file` names, sent as Bearer to the site itself (spec 8.1).
 *
 * A catalogue may come from elsewhere and names files of this machine, so the path must lie below the catalogue's folder,
 * also after every link in it is followed. Read for each full probe, so that a new key needs no restart.
 */
import { constants } from 'node:fs'
import { type FileHandle, open, readlink, realpath } from 'node:fs/promises'
import { isAbsolute, normalize, relative, resolve, sep } from 'node:path'

const KEY_CHARS_MAX = 1_024

export interface KeyFile {
  folder: string // the catalogue's
  name: string // below it
}

/** By its text alone; what links lead to is asked when the file is read. */
export function isBelowFolder(name: string): boolean {
  return !isAbsolute(name) && !leadsOut(normalize(name))
}

/** Throws with the reason, which never has a word of the file. */
export async function readKey({ folder, name }: KeyFile): Promise<string> {
  const [root, path] = await Promise.all([realpath(folder), realpath(resolve(folder, name))])
  const check = (found: string) => {
    if (leadsOut(relative(root, found))) throw new Error(`${name} leads out of the catalogue's folder`)
  }
  check(path)
  // Opening a pipe must not wait for its other end.
  const file = await open(path, constants.O_RDONLY | constants.O_NOFOLLOW | constants.O_NONBLOCK)
  try {
    // Since then a folder of the path may have become a link that leads out. Only Linux tells the path of an open file.
    if (process.platform === 'linux') check(await readlink(`/proc/self/fd/${file.fd}`))
    return await keyIn(file, name)
  } finally {
    await file.close()
  }
}

async function keyIn(file: FileHandle, name: string): Promise<string> {
  if (!(await file.stat()).isFile()) throw new Error(`${name} is not a file`)
  const bytes = Buffer.alloc(KEY_CHARS_MAX + 3) // an ending CR LF, and one byte more than is allowed
  const { bytesRead } = await file.read(bytes, 0, bytes.length, 0)
  const key = bytes.toString('latin1', 0, bytesRead).trim()
  if (key.length <= KEY_CHARS_MAX && /^[\x21-\x7e]+$/.test(key)) return key
  throw new Error(`${name} has no key: one line of at most ${KEY_CHARS_MAX} visible ASCII characters`)
}

function leadsOut(path: string): boolean {
  return path === '..' || path.startsWith(`..${sep}`) || isAbsolute(path)
}
