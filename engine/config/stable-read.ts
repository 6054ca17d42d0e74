/**
 * The rule files of a tree that is being changed, read in a moment when nobody writes (spec 8.4). A file that is half
 * written is often good YAML with half of its rules, and two files of one change belong together.
 *
 *     look: which files and directories, of which change ──► all left alone for 50 ms ──► read ──► look again ──► the same
 *        ▲                                                        │ no                                 │ no
 *        └──────────────────────── 10 ms ─────────────────────────┴────────────────────────────────────┘
 *
 * Gives up: a file that was left half written for longer. The next change repairs it; renaming a whole file into place,
 * or swapping a symbolic link, never needs repair.
 * Times are those of the last change of an inode, which renaming sets too and nobody can set back.
 */
import { type Stats, statSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type FilesRead, findRuleFiles, type RuleTree, readRuleFiles } from './files.ts'

const STABLE_MS = 50
const POLL_MS = 10
const WAIT_MS_MAX = 5_000 // then the tree is read as it is

export async function readStableFiles(tree: RuleTree): Promise<FilesRead> {
  const untilMs = performance.now() + WAIT_MS_MAX
  let seen = ''
  let seenAtMs = 0
  while (performance.now() < untilMs) {
    const { text, isSettled, isMissing } = takeSnapshot(tree)
    if (text !== seen) seenAtMs = Date.now()
    seen = text
    if (isSettled && (!isMissing || Date.now() - seenAtMs >= STABLE_MS)) {
      const read = readRuleFiles(tree)
      if (takeSnapshot(tree).text === text) return read
    }
    await sleep(POLL_MS)
  }
  const read = readRuleFiles(tree)
  read.warnings.push(`the rules have been written to for ${WAIT_MS_MAX} ms without a pause: read as they are`)
  return read
}

interface Snapshot {
  text: string // another one when anything has changed
  isSettled: boolean
  isMissing: boolean // something is: it may be about to be renamed into place, and has no time of its own
}

/** Throws as reading does. */
export function takeSnapshot(tree: RuleTree): Snapshot {
  const nowMs = Date.now()
  const lines: string[] = []
  let isSettled = true
  let isMissing = false
  for (const path of findRuleFiles(tree)) {
    const stat = statOrNull(path)
    lines.push(`${path} ${stat?.dev} ${stat?.ino} ${stat?.size} ${stat?.ctimeMs}`)
    isMissing ||= !stat
    const ageMs = stat ? nowMs - stat.ctimeMs : STABLE_MS
    // in our future it is of another machine's clock and tells nothing, unless it is of this very moment
    if (Math.abs(ageMs) < STABLE_MS) isSettled = false
  }
  return { text: lines.join('\n'), isSettled, isMissing }
}

/** Null where reading will give a warning: nothing there, no right to it, a link in a circle. */
function statOrNull(path: string): Stats | null {
  try {
    return statSync(path)
  } catch {
    return null
  }
}
