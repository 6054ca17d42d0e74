/**
 * What the models listing shows, requested without a key (spec 6.2), why it may not be one (6.3), and the models a site
 * claims in its price list (7.1).
 *
 *     200 with a list of models ────────────────────► open          its ids, cleaned and bounded
 *     401, 403 with a JSON error ───────────────────► key_required
 *     challenge, 429, parked page, anything else ───► absent        `error` where there is a code for it
 */
import type { Visit } from '../egress/egress.ts'
import type { ErrorCode, ListingAuth } from '../facts.ts'
import { shown } from '../shown.ts'
import { isChallenge, isParkedPage } from './challenge-pages.ts'
import { AVAILABLE_PATH, LISTING_PATH, PRICING_PATH } from './fingerprints.ts'
import type { ProbeResponse } from './probe-response.ts'
import { getMember, isRecord, toProbeResponse } from './probe-response.ts'

export const MODELS_MAX = 5_000 // the rest is ignored
const ID_CHARS_MAX = 128 // longer ids are ignored

/** Any of these members makes a JSON object an error; relays use different ones. */
const ERROR_MEMBERS = ['error', 'message', 'detail', 'msg', 'code']

export interface Listing {
  auth: ListingAuth
  models: string[] | null // null = no listing
  error: ErrorCode | null // null with `absent`: the status is the reason
}

export function parseListing(visit: Visit): Listing {
  const absent = (error: ErrorCode | null): Listing => ({ auth: 'absent', models: null, error })
  const response = toProbeResponse(LISTING_PATH, visit)
  if (response === null) return absent(visit.error)
  if (isChallenge(response)) return absent('challenge')
  if (response.status === 429) return absent('http_429')
  if (response.status === 401 || response.status === 403) {
    return isJsonError(response) ? { auth: 'key_required', models: null, error: null } : absent(null)
  }
  if (response.status !== 200) return absent(null)
  const models = modelsIn(response.json)
  if (models !== null) return { auth: 'open', models, error: null }
  if (isParkedPage(response)) return absent('parked')
  return absent(response.json === undefined && response.hasJsonType ? 'body_invalid' : 'not_api')
}

/** `{"data":[{"id":…}]}` or `{"models":[…]}` of ids, or of objects with `id` or `name`; null = neither. */
export function modelsIn(json: unknown): string[] | null {
  if (!isRecord(json)) return null
  const list = Array.isArray(json.data) ? json.data : json.models
  if (!Array.isArray(list)) return null
  const isBare = list === json.models
  const ids = modelIds(list.map((entry) => readModelId(entry, isBare)))
  return list.length > 0 && ids.length === 0 ? null : ids
}

/** Cleaned, unique, of 1 to 128 characters, at most MODELS_MAX, in their order. */
export function modelIds(ids: Iterable<unknown>): string[] {
  const unique = new Set<string>()
  for (const id of ids) {
    if (unique.size === MODELS_MAX) break
    if (typeof id !== 'string') continue
    const clean = shown(id, ID_CHARS_MAX + 8)
      .replace(/^models\//, '')
      .trim()
    if (clean.length > 0 && clean.length <= ID_CHARS_MAX) unique.add(clean)
  }
  return [...unique]
}

function readModelId(entry: unknown, isBare: boolean): unknown {
  if (!isRecord(entry)) return isBare ? entry : undefined
  return entry.id ?? (isBare ? entry.name : undefined)
}

function isJsonError({ json }: ProbeResponse): boolean {
  return isRecord(json) && ERROR_MEMBERS.some((name) => Object.hasOwn(json, name))
}

/**
 * The models a site claims to sell (spec 7.1): names of its price list and of one-hub's list of available models. Sorted by
 * code unit, unique, bounded as listings are.
 *
 *     /api/pricing           data[].model_name
 *     /api/available_model   the members of data
 */
export function claimsIn(responses: readonly ProbeResponse[]): string[] {
  const names = responses.flatMap(({ path, status, json }) => {
    const data = status === 200 ? getMember(json, 'data') : undefined
    if (path === PRICING_PATH && Array.isArray(data)) return data.map((row) => getMember(row, 'model_name'))
    if (path === AVAILABLE_PATH && isRecord(data)) return Object.keys(data)
    return []
  })
  return modelIds(names).sort()
}
