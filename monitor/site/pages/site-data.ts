/** What the page of a site is made of: the same views as the API's, of one snapshot. */
import { type Details, siteDetail, siteHistory, siteIncidents, siteModels } from '../../api/site-detail.ts'
import type { SiteState, Snapshot } from '../../storage/snapshot.ts'
import { type DayGrid, toDayGrid } from '../charts/days.ts'

const HISTORY_DAYS = 30

export interface SiteData {
  detail: Awaited<ReturnType<typeof siteDetail>>
  grid: DayGrid
  models: Awaited<ReturnType<typeof siteModels>>
  incidents: Awaited<ReturnType<typeof siteIncidents>>
  screenshotAtSec: number | null // read with its URL: the snapshot may be older
}

export async function readSiteData(
  snapshot: Snapshot,
  site: SiteState,
  details: Details,
  mediaBase: string,
): Promise<SiteData> {
  const range = { days: HISTORY_DAYS, history: 'hour', region: 'all' } as const
  const [detail, hours, models, incidents, screenshot] = await Promise.all([
    siteDetail(snapshot, site, 'day', details, mediaBase),
    siteHistory(snapshot, site, range, details),
    siteModels(snapshot, site, details),
    siteIncidents(snapshot, site, details),
    details.read('newestScreenshot', site.id),
  ])
  const grid = toDayGrid(detail.probe_history, hours.points, snapshot.generatedAtSec)
  return { detail, grid, models, incidents, screenshotAtSec: screenshot?.takenAtSec ?? null }
}
