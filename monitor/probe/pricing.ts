/**
 * What a site says it sells (spec 7.1): names in its price list, and in one-hub's list of available models.
 *
 *     /api/pricing           data[].model_name
 *     /api/available_model   the members of data
 */

import { AVAILABLE_PATH, PRICING_PATH } from './fingerprints.ts'
import { modelIds } from './listing.ts'
import type { ProbeResponse } from './probe-response.ts'
import { getMember, isRecord } from './probe-response.ts'

/** Sorted by code unit, unique, bounded as listings are. */
export function claimsIn(answers: readonly ProbeResponse[]): string[] {
  const names = answers.flatMap(({ path, status, json }) => {
    const data = status === 200 ? getMember(json, 'data') : undefined
    if (path === PRICING_PATH && Array.isArray(data)) return data.map((row) => getMember(row, 'model_name'))
    if (path === AVAILABLE_PATH && isRecord(data)) return Object.keys(data)
    return []
  })
  return modelIds(names).sort()
}
