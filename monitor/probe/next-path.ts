/**
 * Which path of OWN_PATHS a full probe requests next, by the responses so far.
 *
 *     program is certain ──► one of its paths that has its claims, or the version if that is missing; else none
 *     not certain        ──► the first path of a program with marks or hints, else the first that is left
 *
 * A misleading hint costs one request: the other paths stay in line.
 */
import type { Software } from './fingerprints.ts'
import { AVAILABLE_PATH, OWN_PATHS, VERSIONS } from './fingerprints.ts'
import type { ProbeResponse } from './probe-response.ts'
import { detectSoftware, findCandidates } from './software.ts'

const CERTAIN = 0.9 // confidence of one strong mark

/** `requested`: those of OWN_PATHS that were. Null: no further path is useful. */
export function selectNextPath(
  responses: readonly ProbeResponse[],
  requested: ReadonlySet<string>,
): string | null {
  const { name, version, confidence } = detectSoftware(responses)
  const left = OWN_PATHS.filter(({ path }) => !requested.has(path))
  if (confidence >= CERTAIN) {
    const useful = left.find(
      ({ path, of }) =>
        of.includes(name as Software) && (path === AVAILABLE_PATH || (version === null && hasVersion(path))),
    )
    return useful?.path ?? null
  }
  const candidates = findCandidates(responses)
  const likely = left.find(({ of }) => of.some((software) => candidates.has(software)))
  return (likely ?? left[0])?.path ?? null
}

function hasVersion(path: string): boolean {
  return VERSIONS.some((version) => version.path === path)
}
