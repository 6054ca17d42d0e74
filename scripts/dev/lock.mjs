/**
 * A lock between processes: `npm start` and `npm test` in the same fresh clone must not install at the same time.
 *
 * The lock is a file that its holder creates exclusively and touches every two seconds. A file that was not touched for 20 s
 * belongs to a holder that was killed, and is taken over. The age decides and not a process id, because two containers that
 * share a directory do not share process ids. Cost: a wait of up to 20 s after such a kill.
 */
import { closeSync, openSync, renameSync, statSync, unlinkSync, utimesSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Remedy } from './child.mjs'

const TOUCH_MS = 2_000
const STALE_MS = 20_000
const POLL_MS = 200
const WAIT_MS_MAX = 900_000 // longer than the slowest install may take; beyond: an error that names the file

/** Runs `work` while holding the lock file; `onWait` is called once if another process holds it. */
export async function withLock(path, work, onWait = () => {}) {
  const endMs = Date.now() + WAIT_MS_MAX
  for (let waits = 0; !take(path); waits++) {
    if (waits === 0) onWait()
    if (Date.now() > endMs) throw new Remedy(`${path} is held for too long. End its holder or delete it.`)
    removeStale(path)
    await sleep(POLL_MS)
  }
  const release = () => unlink(path)
  const touching = setInterval(() => touch(path), TOUCH_MS)
  process.on('exit', release)
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.once(signal, exit)
  try {
    return await work()
  } finally {
    for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.off(signal, exit)
    process.off('exit', release)
    clearInterval(touching)
    release()
  }
}

function exit() {
  process.exit(130) // without a handler a signal skips the 'exit' event, and the lock would stay behind
}

function take(path) {
  try {
    closeSync(openSync(path, 'wx'))
    return true
  } catch (error) {
    if (error.code === 'EEXIST') return false
    throw error
  }
}

/** Renames first: of two processes that find the same stale file only one can rename it. */
function removeStale(path) {
  if (!isStale(path)) return
  const aside = `${path}.${process.pid}`
  try {
    renameSync(path, aside)
  } catch {
    return
  }
  if (isStale(aside)) unlink(aside)
  else renameSync(aside, path) // taken by another process between the check and the renaming
}

function isStale(path) {
  try {
    return Date.now() - statSync(path).mtimeMs > STALE_MS
  } catch {
    return false
  }
}

function touch(path) {
  const now = new Date()
  try {
    utimesSync(path, now, now)
  } catch {} // deleted by hand; the work goes on
}

function unlink(path) {
  try {
    unlinkSync(path)
  } catch {}
}
