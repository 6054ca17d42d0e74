import { describe, expect, test } from 'vitest'
import { collectFindings } from '../../../monitor/evaluation/findings.ts'
import type { Observation } from '../../../monitor/facts.ts'
import { createObservation, DAY_SEC, INTERVAL_SEC, NOW_SEC, openWorld } from './world.ts'

const SITE = { apiBase: 'https://site.example.com', catalogue: { modelsClaimed: ['gpt-5.4', 'other'] } }

describe('7.2: the certificate, now', () => {
  const { tls } = createObservation(NOW_SEC).profile
  // biome-ignore format: the columns are the specification
  const cases: [string, Observation['profile']['tls'], number, boolean, number | null][] = [
    // certificate, age of the probe in hours -> invalid, hygiene
    ['good',                       tls,                                            0, false, 1],
    ['not valid',                  { ...tls!, isValid: false },                    0, true,  0.6],
    ['has ended since',            { ...tls!, notAfterSec: NOW_SEC },              6, true,  0.6],
    ['ends within 14 days',        { ...tls!, notAfterSec: NOW_SEC + 9 * DAY_SEC }, 0, false, 0.6],
    ['no handshake seen',          null,                                           0, false, 1],
    ['not valid, 72 h ago',        { ...tls!, isValid: false },                   72, true,  0.6],
    ['not valid, but longer ago',  { ...tls!, isValid: false },                   73, false, null],
  ]
  for (const [name, certificate, ageHours, isInvalid, hygiene] of cases) {
    test(name, () => {
      const seen = createObservation(NOW_SEC - ageHours * 3_600)
      seen.profile.tls = certificate
      const findings = collectFindings(SITE, seen, seen, NOW_SEC)
      expect(findings.isCertificateInvalid).toBe(isInvalid)
      if (hygiene === null) expect(findings.hygiene).toBeNull()
      else expect(findings.hygiene).toBeCloseTo(hygiene)
    })
  }

  test('on plain http none is missed, and none is invalid', () => {
    const seen = createObservation(NOW_SEC)
    seen.profile.tls = null
    const findings = collectFindings({ ...SITE, apiBase: 'http://site.example.com' }, seen, seen, NOW_SEC)
    expect([findings.isCertificateInvalid, findings.hygiene]).toEqual([false, expect.closeTo(0.4)])
  })
})

test('7.1: models and program come from the newest full probe with a response, the rest from the newest', async () => {
  const world = await openWorld({ slug: 'site', modelsClaimed: ['other'] })
  world.probed('site')
  world.observed('site')
  world.nowSec += INTERVAL_SEC
  const { profile } = createObservation(world.nowSec)
  const broken = { ...profile, software: { name: 'unknown', version: null, confidence: 0 } }
  world.observed('site', { listing: 'absent', models: null, claimed: [], profile: broken, isParked: true })
  world.pass()
  const [site] = world.snapshot().sites
  expect(site.facts).toMatchObject({ software: 'new-api', modelsClaimed: 2, modelsVerified: 2 })
  const findings = collectFindings(SITE, { ...createObservation(NOW_SEC), isParked: true }, null, NOW_SEC)
  expect(findings).toMatchObject({
    isParked: true,
    models: { claimed: ['gpt-5.4', 'other'], truthRatio: null },
  })
})

test('7.2: without a full probe only the claims of the catalogue are known', () => {
  expect(collectFindings(SITE, null, null, NOW_SEC)).toEqual({
    models: { claimed: ['gpt-5.4', 'other'], verified: [], truthRatio: null },
    hygiene: null,
    isCertificateInvalid: false,
    isParked: false,
    software: 'unknown',
  })
})
