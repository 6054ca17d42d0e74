/**
 * Reads the rule files of a tree when it has stopped changing (spec 8.4). A half-written file is often valid YAML with half
 * of its rules, and two files of one change belong together.
 *
 *     snapshot of all files and directories ──► all unchanged for 50 ms ──► read ──► snapshot again ──► the same
 *        ▲                                              │ no                                     │ no
 *        └────────────────────── 10 ms ─────────────────┴────────────────────────────────────────┘
 *
 * A file that stays half-written for longer is read as it is, until its next change. Renaming a complete file into place or
 * swapping a symbolic link has no such gap. Times are ctimes, which renaming updates and no program can set back.
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
  read.warnings.push(
    `the rule files have been changing for ${WAIT_MS_MAX} ms without a pause: read as they are`,
  )
  return read
}

interface Snapshot {
  text: string // differs when anything has changed
  isSettled: boolean
  isMissing: boolean // a path is missing: a file may be about to be renamed into place
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
    // A time in the future is from another machine's clock and is ignored, unless it is within STABLE_MS.
    if (Math.abs(ageMs) < STABLE_MS) isSettled = false
  }
  return { text: lines.join('\n'), isSettled, isMissing }
}

/** Null where reading will cause a warning: missing, not permitted, or a link loop. */
function statOrNull(path: string): Stats | null {
  try {
    return statSync(path)
  } catch {
    return null
  }
}
