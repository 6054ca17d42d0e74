import { expect, test } from 'vitest'
import type { ListingAuth, Observation } from '../../../monitor/facts.ts'
import { toSightings } from '../../../monitor/service/sites.ts'
import { NOW_SEC } from '../storage/stores.ts'

function observation(listing: ListingAuth, models: string[] | null, claimed: string[]): Observation {
  return { atSec: NOW_SEC, listing, models, claimed } as Observation
}

// biome-ignore format: a table
test.each([
  ['none: the listing is no valid response, even with a price list', observation('absent', null, ['gpt-5.4']), null],
  ['a price list alone',  observation('key_required', null, ['gpt-5.4']),  [['gpt-5.4', true, false]]],
  ['a closed site',       observation('key_required', null, []),           []],
  ['a listing with a key alone', observation('absent', ['gpt-5.4'], []),    [['gpt-5.4', false, true]]],
  ['an open listing',     observation('open', ['gpt-5.4'], []),            [['gpt-5.4', false, true]]],
  ['two spellings',       observation('open', ['OpenAI/GPT-5.4'], ['gpt-5.4']), [['gpt-5.4', true, true]]],
])('7.1: models of a full probe: %s', (_, seen, sightings) => {
  const found = toSightings(seen)
  expect(found?.map(({ key, isClaimed, isVerified }) => [key, isClaimed, isVerified]) ?? null).toEqual(sightings)
})
