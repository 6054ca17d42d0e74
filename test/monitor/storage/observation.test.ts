/** What a full probe found, written and read again; also as it was stored before its notices were. */
import { expect, test } from 'vitest'
import type { Observation } from '../../../monitor/facts.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import { Reader } from '../../../monitor/storage/reader.ts'
import { catalogueSite, freshDatabase, NOW_SEC } from './stores.ts'

const OLD: Observation = {
  atSec: NOW_SEC,
  models: null,
  listing: 'absent',
  claimed: ['gpt-5.4'],
  profile: {
    cdn: { provider: null, evidence: [] },
    asn: { number: null, name: null, country: null },
    ips: ['104.16.0.1'],
    hasIpv6: false,
    tls: null,
    software: { name: 'unknown', version: null, confidence: 0 },
  },
  hygiene: { redirectsToHttps: null, hasHsts: null, leaksUpstream: null },
  isParked: false,
}
const notices = { systemName: 'My relay', startTimeSec: 1_790_000_000, hasTopUp: false }

// biome-ignore format: the columns are the specification
const cases: [string, Observation][] = [
  // a listing that was not seen is null
  ['with its notices',              { ...OLD, notices }],
  ['with an empty listing',         { ...OLD, models: [], listing: 'open' }],
  ['of before notices were stored', OLD],
]
for (const [what, observation] of cases) {
  test(`6.2, 8.2: an observation ${what} is read as it was written`, async () => {
    const database = await freshDatabase()
    const { one: siteId } = syncCatalogue(database, [catalogueSite('one')], NOW_SEC).ids
    const write = { kind: 'observation', siteId, observation, models: null } as const
    expect(applyBatch(database, [write], NOW_SEC)).toEqual([])
    expect(new Reader(database.path).observation(siteId)).toStrictEqual(observation)
  })
}
