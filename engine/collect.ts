/**
 * Gives shared memory back that nobody needs any more.
 *
 *     old rules image ── replaced in this thread ──► a full collection, a moment later ──► freed once all threads did it
 *
 * A SharedArrayBuffer lives as long as any thread holds an object that names it, and the collector of an idle thread has
 * no reason to run, since it does not count such memory: each load of 100,000 rules kept 11 MB. A full collection of our
 * small heaps takes some 5 ms, so it is asked for only where megabytes are to be had.
 */
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'

const BYTES_MIN = 1_048_576
const LATER_MS = 1_000 // by then what was decided by the old rules has been answered

let timer: NodeJS.Timeout | undefined

/** This thread has let go of shared memory of so many bytes. */
export function collectLater(bytes: number): void {
  if (bytes < BYTES_MIN) return
  if (timer !== undefined) clearTimeout(timer) // the last of several changes is followed by one collection
  timer = setTimeout(collect, LATER_MS).unref()
}

function collect(): void {
  setFlagsFromString('--expose-gc') // the only way that needs no flag of the process
  const gc = runInNewContext('gc') as () => void
  gc()
}
