/**
 * Which models a site claims, which its listing shows, and how true the claim is (spec 7.1).
 *
 *     catalogue, pricing ─► claimed ─┐
 *                                    ├─► truth ratio = claimed that are listed / claimed
 *     /v1/models         ─► verified ┘     listed but not claimed has no effect
 *
 * Names are compared by key: `  models/OpenAI/GPT-5.4 ` and `gpt-5.4` are one model. Lists keep the spelling.
 */
import type { Observation } from '../facts.ts'

const CLAIMS_AGE_MAX_SEC = 7 * 86_400
const VERIFIED_AGE_MAX_SEC = 72 * 3_600

/** A full probe that succeeded; failed ones are no evidence about models and are not passed. */
export type FullProbe = Pick<Observation, 'atSec' | 'models' | 'listing' | 'claimed'>

export interface Models {
  claimed: string[]
  verified: string[]
  truthRatio: number | null // null = nothing claimed, never probed, or the listing requires a key and none is configured
}

/** `newest`: the last full probe that succeeded, null = none within what is kept. */
export function compareModels(
  catalogueClaims: readonly string[],
  newest: FullProbe | null,
  nowSec: number,
): Models {
  const ageSec = newest === null ? Number.POSITIVE_INFINITY : nowSec - newest.atSec
  const probeClaims = ageSec <= CLAIMS_AGE_MAX_SEC ? newest!.claimed : []
  const listed = ageSec <= VERIFIED_AGE_MAX_SEC ? (newest!.models ?? []) : []
  const claimed = uniqueModels([...catalogueClaims, ...probeClaims])
  const verified = uniqueModels(listed)
  const isAsked = newest !== null && (newest.listing !== 'key_required' || newest.models !== null)
  return { claimed, verified, truthRatio: isAsked ? truthRatio(claimed, verified) : null }
}

/** Whether a full probe is evidence about models: the listing was open, or an API required a key. */
export function isAnswered({ listing, models }: Pick<FullProbe, 'listing' | 'models'>): boolean {
  return listing !== 'absent' || models !== null // with a key, where the listing has no response without one
}

/** The key of a model name: trimmed, lower case, without `models/` and one leading `vendor/`. */
export function modelKey(id: string): string {
  const name = id.trim().toLowerCase()
  const bare = name.startsWith('models/') ? name.slice('models/'.length) : name
  const slash = bare.indexOf('/')
  return slash >= 0 && slash < bare.length - 1 ? bare.slice(slash + 1) : bare
}

/** One spelling per key, sorted by code unit; of several spellings the first in that order. Blank ones are dropped. */
export function uniqueModels(ids: readonly string[]): string[] {
  const spellings = new Map<string, string>()
  for (const id of ids.map((text) => text.trim()).sort()) {
    const key = modelKey(id)
    if (key !== '' && !spellings.has(key)) spellings.set(key, id)
  }
  return [...spellings.values()]
}

function truthRatio(claimed: string[], verified: string[]): number | null {
  if (claimed.length === 0) return null
  const keys = new Set(verified.map(modelKey))
  return claimed.filter((id) => keys.has(modelKey(id))).length / claimed.length
}
