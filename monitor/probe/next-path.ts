/**
 * Which path of OWN_PATHS is worth the next request of a full probe, judged by what was answered so far.
 *
 *     sure of a program ──► one of its paths that has its claims, or the version if that is missing; else none
 *     not sure          ──► the first path of a program whose marks or hints show, else the first that is left
 *
 * A hint that misleads costs a request, no more: the other paths are still next in line.
 */

import type { Software } from './fingerprints.ts'
import { AVAILABLE_PATH, OWN_PATHS, VERSIONS } from './fingerprints.ts'
import type { ProbeResponse } from './probe-response.ts'
import { detectSoftware, suspectsIn } from './software.ts'

const SURE = 0.9 // of a program: one strong mark

/** `asked`: those of OWN_PATHS that were. Null: nothing more is worth asking. */
export function selectNextPath(answers: readonly ProbeResponse[], asked: ReadonlySet<string>): string | null {
  const { name, version, confidence } = detectSoftware(answers)
  const left = OWN_PATHS.filter(({ path }) => !asked.has(path))
  if (confidence >= SURE) {
    const owed = left.find(
      ({ path, of }) =>
        of.includes(name as Software) && (path === AVAILABLE_PATH || (version === null && hasVersion(path))),
    )
    return owed?.path ?? null
  }
  const suspects = suspectsIn(answers)
  const likely = left.find(({ of }) => of.some((software) => suspects.has(software)))
  return (likely ?? left[0])?.path ?? null
}

function hasVersion(path: string): boolean {
  return VERSIONS.some((version) => version.path === path)
}
