/**
 * One at a time, across processes: `npm start` and `npm test` in the same fresh clone must not install over each other.
 *
 * The lock is a file that its holder creates exclusively and touches every two seconds. One that nobody has touched for
 * 20 s belongs to a holder that was killed, and is taken over. Age and not a process id, because two containers that
 * share a directory do not share process ids. Gives up: up to 20 s after such a kill.
 */
import { closeSync, openSync, renameSync, statSync, unlinkSync, utimesSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { Remedy } from './child.mjs'

const TOUCH_MS = 2_000
const STALE_MS = 20_000
const POLL_MS = 200
const WAIT_MS_MAX = 900_000 // longer than the slowest install may take; beyond: an error that names the file

/** Runs `work` while holding the lock file; `onWait` is called once if somebody else holds it. */
export async function withLock(path, work, onWait = () => {}) {
  const giveUpMs = Date.now() + WAIT_MS_MAX
  for (let waits = 0; !take(path); waits++) {
    if (waits === 0) onWait()
    if (Date.now() > giveUpMs) throw new Remedy(`${path} is held for too long. End its holder or delete it.`)
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

/** Renamed first: of two that find the same stale file only one moves it, the other finds nothing or a fresh one. */
function removeStale(path) {
  if (!isStale(path)) return
  const aside = `${path}.${process.pid}`
  try {
    renameSync(path, aside)
  } catch {
    return
  }
  if (isStale(aside)) unlink(aside)
  else renameSync(aside, path) // taken by another between look and move; hand it back
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
  } catch {} // deleted by a person who wanted to help; the work in hand is finished all the same
}

function unlink(path) {
  try {
    unlinkSync(path)
  } catch {}
}
