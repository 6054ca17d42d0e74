/**
 * Writes the files of the demo: catalogue, networks, and a database with the history of its sites.
 *
 *     relays are well ─► full probe of each ─► relays as today ─► full probe of those that changed ─► history
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { loadCatalogue } from '../../../monitor/catalogue/load.ts'
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import type { CatalogueSite, Observation } from '../../../monitor/facts.ts'
import { loadAsnTable } from '../../../monitor/probe/asn.ts'
import { fullProbe } from '../../../monitor/probe/full.ts'
import type { ProbeContext } from '../../../monitor/probe/probe.ts'
import { DAY_SEC } from '../../../monitor/scoring/bucket.ts'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import { syncCatalogue } from '../../../monitor/storage/catalogue-transaction.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { migrate } from '../../../monitor/storage/migrate.ts'
import { databasePath } from '../../../monitor/storage/path.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { createVantage, saveVantage } from '../../../monitor/storage/vantages.ts'
import { fillHistory } from './history.ts'
import { asnPath, cataloguePath, DEMO_AGENT, DEMO_VANTAGE } from './settings.ts'
import { type DemoSite, demoAsnTable, demoCatalogue, siteUrl } from './sites.ts'
import type { World } from './world.ts'

export type Observations = ReadonlyMap<string, { well: Observation; now: Observation }>

/** Probes from this process as the monitor's own vantage will. */
export async function createProbeContext(world: Pick<World, 'env'>, folder: string): Promise<ProbeContext> {
  writeFileSync(asnPath(folder), demoAsnTable())
  const ca = readFileSync(world.env.NODE_EXTRA_CA_CERTS, 'utf8')
  const egress = new Egress({ settings: egressSettings(world.env), version: 'demo', ca })
  return { egress, asn: await loadAsnTable(asnPath(folder)), nowMs: Date.now }
}

/** What each site shows when it is well, and what it shows today. */
export async function observe(
  world: Pick<World, 'turnToToday' | 'delayReplies'>,
  context: ProbeContext,
  sites: readonly DemoSite[],
): Promise<Observations> {
  const probeAll = (some: readonly DemoSite[]) => Promise.all(some.map((site) => probe(context, site)))
  const well = await probeAll(sites)
  world.turnToToday()
  const isOther = ({ now }: DemoSite) => now !== undefined && now !== 'slow' && now !== 'flapping'
  const changed = sites.filter(isOther)
  const today = new Map((await probeAll(changed)).map((observation, i) => [changed[i].slug, observation]))
  world.delayReplies()
  return new Map(
    sites.map(({ slug }, i) => [slug, { well: well[i], now: today.get(slug) ?? well[i] }] as const),
  )
}

export interface HistoryInput {
  folder: string
  sites: readonly DemoSite[]
  observations: Observations
  days: number
  nowSec: number
  onProgress: (share: number) => void
}

/** Returns the agent's token and the number of simulated probes. */
export async function prepareDatabase(input: HistoryInput): Promise<{ token: string; probesCount: number }> {
  const { folder, sites, days, nowSec } = input
  const database = await openDemoDatabase(folder)
  try {
    const { ids } = syncCatalogue(database, writeCatalogue(folder, sites, nowSec), nowSec - days * DAY_SEC)
    const own = saveVantage(database, DEMO_VANTAGE)
    const token = createVantage(database, DEMO_AGENT)
    const agent = database.get<{ id: number }>('SELECT id FROM vantage WHERE name = ?', DEMO_AGENT.name)!
    const vantages = {
      overseas: { id: own, name: DEMO_VANTAGE.name },
      cn: { id: agent.id, name: DEMO_AGENT.name },
    }
    const probesCount = await fillHistory({
      ...input,
      database,
      ids,
      vantages,
      ownVantage: DEMO_VANTAGE.name,
    })
    return { token, probesCount }
  } finally {
    database.close()
  }
}

/** Also while the monitor runs: writes of two processes wait for each other. */
export async function storeWrites(folder: string, writes: Write[]): Promise<void> {
  const database = await openDemoDatabase(folder)
  try {
    const [refusal] = applyBatch(database, writes, 0)
    if (refusal) throw new Error(`the demo's detection was refused: ${refusal.why}`)
  } finally {
    database.close()
  }
}

async function openDemoDatabase(folder: string): Promise<Database> {
  const database = new Database(databasePath(folder))
  await migrate(database)
  return database
}

function writeCatalogue(
  folder: string,
  sites: readonly DemoSite[],
  nowSec: number,
): readonly CatalogueSite[] {
  writeFileSync(cataloguePath(folder), demoCatalogue(sites, nowSec))
  const loaded = loadCatalogue({ path: cataloguePath(folder) })
  if (loaded.kind !== 'loaded') throw new Error(`the demo's catalogue is invalid: ${JSON.stringify(loaded)}`)
  return loaded.catalogue.entries
}

async function probe(context: ProbeContext, site: DemoSite): Promise<Observation> {
  const url = siteUrl(site)
  const { observation, probe: result } = await fullProbe(context, { url, apiBase: url, purpose: 'catalogue' })
  if (observation) return observation
  throw new Error(`the demo's relay ${site.slug} was not reached: ${result.error}`)
}
