/** What a pass says of availability, against a computation from the probes themselves. */
import fc from 'fast-check'
import { expect, test } from 'vitest'
import { getSiteFacts } from '../../../monitor/api/site-facts.ts'
import type { Outcome, Region } from '../../../monitor/facts.ts'
import { computeHistory } from '../../../monitor/scoring/windows.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { size } from '../../helpers/size.ts'
import { probe } from '../storage/stores.ts'
import { DAY_SEC, MAIN, NOW_SEC, openWorld, type World } from './world.ts'

const HOUR_SEC = 3_600

interface Seen {
  atSec: number
  outcome: Outcome
  ttfbMs: number
}

/** Of one region: then the better one is that region, and sums over probes are all there is. */
const seen = fc.record<Seen>({
  atSec: fc.integer({ min: NOW_SEC - 31 * DAY_SEC, max: NOW_SEC }),
  outcome: fc.constantFrom<Outcome>('up', 'up', 'up', 'degraded', 'down', 'inconclusive'),
  ttfbMs: fc.integer({ min: 1, max: 9_000 }),
})
const month = fc.uniqueArray(seen, { selector: ({ atSec }) => atSec, minLength: 1, maxLength: 400 })

test('7.2: availability of a week, a month, peak hours and days equals that of the raw probes', async () => {
  await fc.assert(
    fc.asyncProperty(month, async (all) => {
      const world = await createFilled(all.map((one) => ({ ...one, region: 'overseas' as const })))
      world.rolledUp()
      const counted = all.filter(({ outcome }) => outcome !== 'inconclusive')
      world.pass()
      const [site] = world.snapshot().sites
      if (counted.length === 0) expect(site).toBeUndefined()
      else expect(readRatios(world)).toEqual(direct(counted))
      world.database.close()
    }),
    { numRuns: size({ small: 25, full: 1_000 }), seed: 7 },
  )
})

/** Windows are whole buckets: what belongs to one is where its bucket starts. */
function direct(counted: Seen[]) {
  const startOfHour = ({ atSec }: Seen) => atSec - (atSec % HOUR_SEC)
  const startOfDay = ({ atSec }: Seen) => atSec - (atSec % DAY_SEC)
  const peak = (hour: number) => hour >= 9 && hour < 23 // UTC+8
  const monthSec = NOW_SEC - 30 * DAY_SEC
  const todaySec = NOW_SEC - (NOW_SEC % DAY_SEC)
  const over = (isIn: (one: Seen) => boolean) => availability(counted.filter(isIn))
  return {
    week: over((one) => startOfHour(one) >= NOW_SEC - 7 * DAY_SEC),
    month: over((one) => startOfDay(one) >= monthSec),
    peak: over((one) => startOfHour(one) >= monthSec && peak((one.atSec / HOUR_SEC + 8) % 24)),
    days: Array.from({ length: 30 }, (_, i) =>
      over((one) => startOfDay(one) === todaySec - (29 - i) * DAY_SEC),
    ),
  }
}

function availability(probes: Seen[]): number | null {
  const worth = probes.reduce(
    (sum, { outcome }) => sum + (outcome === 'up' ? 1 : outcome === 'degraded' ? 0.7 : 0),
    0,
  )
  return probes.length === 0 ? null : Number((worth / probes.length).toFixed(9))
}

function readRatios(world: World) {
  const facts = getSiteFacts(world.snapshot().sites[0])
  const rounded = (value: number | null) => value && Number(value.toFixed(9))
  return {
    week: rounded(facts.availability7d),
    month: rounded(facts.availability30d),
    peak: rounded(facts.availabilityPeak30d),
    days: facts.days.map(rounded),
  }
}

const seenAnywhere = fc.tuple(seen, fc.constantFrom<Region>('cn', 'overseas'))
const anywhere = fc.uniqueArray(seenAnywhere, {
  selector: ([{ atSec }, region]) => `${atSec} ${region}`,
  minLength: 1,
  maxLength: 300,
})

test('7.2: what is read for the score is what pages read, of both regions', async () => {
  await fc.assert(
    fc.asyncProperty(anywhere, fc.integer({ min: 0, max: 300 }), async (all, rolledUp) => {
      const probes = all.map(([one, region]) => ({ ...one, region }))
      const world = await createFilled(probes.slice(0, rolledUp))
      world.rolledUp()
      addProbes(world, probes.slice(rolledUp))
      const siteId = world.ids.site
      const range = { siteId, region: 'all', toSec: NOW_SEC + 1 } as const
      const hours = world.reader.history({ ...range, windowSec: HOUR_SEC, fromSec: NOW_SEC - 7 * DAY_SEC })
      const days = world.reader.history({ ...range, windowSec: DAY_SEC, fromSec: NOW_SEC - 30 * DAY_SEC })
      expect(world.reader.scoreHistory(siteId, NOW_SEC)).toEqual(computeHistory(hours, days, NOW_SEC))
      world.database.close()
    }),
    { numRuns: size({ small: 25, full: 1_000 }), seed: 8 },
  )
})

type RegionProbe = Seen & { region: Region }

async function createFilled(probes: RegionProbe[]): Promise<World> {
  const world = await openWorld('site')
  world.vantage('agent', 'cn')
  addProbes(world, probes)
  return world
}

function addProbes(world: World, probes: RegionProbe[]): void {
  const writes = probes.map(({ atSec, outcome, ttfbMs, region }): Write => {
    const timings = { dnsMs: 4, connectMs: 38, tlsMs: 44, ttfbMs, totalMs: ttfbMs }
    const vantageId = world.vantages[region === 'cn' ? 'agent' : MAIN]
    return { kind: 'probe', siteId: world.ids.site, vantageId, probe: probe(atSec, { outcome, timings }) }
  })
  world.nowSec = 0 // so that probes of a month ago are taken
  world.write(writes)
  world.nowSec = NOW_SEC
}
