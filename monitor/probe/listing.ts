/**
 * What the models listing says, asked without a key (spec 6.2), and what speaks against it being one (6.3).
 *
 *     200 with a list of models ──────────────► open          its ids, cleaned and bounded
 *     401, 403 with a JSON error ─────────────► key_required
 *     a wall, 429, a parked page, anything else ► absent       `error` where it has a code of its own
 */
import type { Visit } from '../egress/egress.ts'
import type { ErrorCode, ListingAuth } from '../facts.ts'
import { isChallenge, isParkedPage } from './challenge-pages.ts'
import type { ProbeResponse } from './probe-response.ts'
import { isRecord, shown, toProbeResponse } from './probe-response.ts'

export const LISTING_PATH = '/v1/models'
export const MODELS_MAX = 5_000 // the rest is left out
const ID_CHARS_MAX = 128 // longer ones are left out

/** Members whose presence makes a JSON object an error; relays have many dialects. */
const ERROR_MEMBERS = ['error', 'message', 'detail', 'msg', 'code']

export interface Listing {
  auth: ListingAuth
  models: string[] | null // null = no listing
  error: ErrorCode | null // null with `absent`: its status says it all
}

export function parseListing(visit: Visit): Listing {
  const absent = (error: ErrorCode | null): Listing => ({ auth: 'absent', models: null, error })
  const answer = toProbeResponse(LISTING_PATH, visit)
  if (answer === null) return absent(visit.error)
  if (isChallenge(answer)) return absent('challenge')
  if (answer.status === 429) return absent('http_429')
  if (answer.status === 401 || answer.status === 403) {
    return isJsonError(answer) ? { auth: 'key_required', models: null, error: null } : absent(null)
  }
  if (answer.status !== 200) return absent(null)
  const models = modelsIn(answer.json)
  if (models !== null) return { auth: 'open', models, error: null }
  if (isParkedPage(answer)) return absent('parked')
  return absent(answer.json === undefined && answer.saysJson ? 'body_invalid' : 'not_api')
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
