/**
 * What full probes show of a site now: models, certificate, hygiene, program (spec 7.1, 7.2).
 *
 *     the newest one, at most 72 h old   ─► certificate, hygiene, parked        any outcome
 *     the newest with a listing response ─► models, program                     a failed one proves nothing
 */
import type { CatalogueSite, Observation } from '../facts.ts'
import { compareModels, type Models } from '../scoring/models.ts'
import { getHygieneValue } from '../scoring/score.ts'

const NOW_AGE_MAX_SEC = 72 * 3_600 // as long as a listing counts (spec 7.1)

export interface Findings {
  models: Models
  hygiene: number | null
  isCertificateInvalid: boolean
  isParked: boolean
  software: string
}

export function collectFindings(
  { apiBase, catalogue }: { apiBase: string; catalogue: Pick<CatalogueSite, 'modelsClaimed'> },
  newest: Observation | null,
  answered: Observation | null,
  nowSec: number,
): Findings {
  const isNow = newest !== null && nowSec - newest.atSec <= NOW_AGE_MAX_SEC
  const now = isNow ? newest : null
  const isHttps = apiBase.startsWith('https:')
  return {
    models: compareModels(catalogue.modelsClaimed, answered, nowSec),
    hygiene: now && getHygieneValue(now.profile.tls, now.hygiene, { isHttps, nowSec }),
    isCertificateInvalid: isInvalid(now?.profile.tls ?? null, nowSec),
    isParked: now?.isParked ?? false,
    software: (answered ?? newest)?.profile.software.name ?? 'unknown',
  }
}

/** False if no handshake was seen. */
function isInvalid(tls: Observation['profile']['tls'], nowSec: number): boolean {
  return tls !== null && (!tls.isValid || tls.notAfterSec <= nowSec)
}
