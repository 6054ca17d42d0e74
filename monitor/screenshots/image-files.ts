/**
 * Pictures as files named by their content, below MONITOR_DATA_DIR. Equal pictures are one file; a file is complete or absent.
 *
 *     <data>/screenshots/<sha256>.webp        rows of the table `screenshot` name it; files that no row names are removed
 */
import { createHash, randomUUID } from 'node:crypto'
import { mkdir, open, readdir, readFile, rename, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'

const FILE = /^[0-9a-f]{64}\.webp$/
const TEMPORARY = /^\.[0-9a-f-]{36}\.tmp$/
const KEPT_MS = 3_600_000 // of a file without a row: its row may not be written yet

export function imagesFolder(dataDir: string): string {
  return join(dataDir, 'screenshots')
}

/** Returns the SHA-256, hexadecimal. Throws as the file system does; then nothing is stored. */
export async function writeImage(folder: string, image: Buffer): Promise<string> {
  const sha256 = createHash('sha256').update(image).digest('hex')
  await mkdir(folder, { mode: 0o750 }).catch((error) => {
    if (error.code !== 'EEXIST') throw error // not `recursive`, which never returns for folders of the kernel (storage/path.ts)
  })
  const temporary = join(folder, `.${randomUUID()}.tmp`)
  try {
    const file = await open(temporary, 'wx', 0o640)
    try {
      await file.writeFile(image)
      await file.sync()
    } finally {
      await file.close()
    }
    await rename(temporary, join(folder, `${sha256}.webp`))
  } catch (error) {
    await rm(temporary, { force: true }).catch(() => {})
    throw error
  }
  return sha256
}

/** Null if there is none. */
export async function readImage(folder: string, sha256: string): Promise<Buffer | null> {
  if (!FILE.test(`${sha256}.webp`)) return null
  return readFile(join(folder, `${sha256}.webp`)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === 'ENOENT') return null
    throw error
  })
}

/** Removes files that no row names and that are older than an hour. Returns how many. */
export async function sweepImages(
  folder: string,
  named: ReadonlySet<string>,
  nowMs: number,
): Promise<number> {
  const names = await readdir(folder).catch(() => [])
  let count = 0
  for (const name of names) {
    const isOurs = TEMPORARY.test(name) || (FILE.test(name) && !named.has(name.slice(0, 64)))
    if (!isOurs) continue
    const path = join(folder, name)
    const { mtimeMs } = await stat(path).catch(() => ({ mtimeMs: nowMs }))
    if (nowMs - mtimeMs < KEPT_MS) continue
    await rm(path, { force: true })
    count++
  }
  return count
}
