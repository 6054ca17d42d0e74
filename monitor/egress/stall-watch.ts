/**
 * Whether this thread stood still while a visit was under way. Deadlines run on meanwhile and come before the sockets are
 * read, so a target that answered in time looks silent; what such a visit says of a failure, or of its times, is not true.
 *
 *     const watch = startStallWatch()
 *     …
 *     watch.stop()   // ms of standing still since the start, 0 on a thread that is merely busy
 */

const TICK_MS = 100
const STALL_MIN_MS = 250 // a longer gap between two ticks is standing still, a shorter one a busy thread

let watchers = 0
let timer: NodeJS.Timeout | undefined
let lastMs = 0
let totalMs = 0

export interface StallWatch {
  stop(): number // once
}

export function startStallWatch(): StallWatch {
  if (watchers++ === 0) {
    lastMs = performance.now()
    timer = setInterval(note, TICK_MS)
    timer.unref()
  }
  note()
  const beforeMs = totalMs
  return {
    stop: () => {
      note() // the gap at hand, too
      if (--watchers === 0) clearInterval(timer)
      return totalMs - beforeMs
    },
  }
}

function note(): void {
  const nowMs = performance.now()
  const gapMs = nowMs - lastMs
  if (gapMs >= STALL_MIN_MS) totalMs += gapMs
  lastMs = nowMs
}
