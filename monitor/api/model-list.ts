/**
 * `GET /models` and the filter `model=` of the list of sites (spec 3.1, 3.6), from the snapshot's index.
 *
 *     gpt-5.4   12 sites claim or list it   verified_sites: alpha, best, …     most sites first, then by name
 *
 * Models are identified by their key (spec 7.1), so `openai/GPT-5.4` and `gpt-5.4` are one model. Counting visits every entry:
 * about 10 ms for 5,000 sites with 200 models each, once per snapshot, and again for each page of `/models` that is not cached.
 */
import { modelKey } from '../scoring/models.ts'
import { VERIFIED } from '../storage/model-index.ts'
import type { SiteState, Snapshot } from '../storage/snapshot.ts'
import type { Query } from './query.ts'

const VERIFIED_SITES_MAX = 50

export function modelList(snapshot: Snapshot, query: Query) {
  const { names } = snapshot.models
  const { counts, order } = getRanking(snapshot)
  const text = String(query.q ?? '').toLowerCase() // keys are lower case
  const found = text === '' ? order : order.filter((place) => names[place].includes(text))
  const offset = Number(query.offset)
  const page = found.slice(offset, offset + Number(query.limit))
  const verified = verifiedSites(snapshot, page)
  const models = page.map((place, i) => ({
    id: names[place],
    sites: counts[place],
    verified_sites: verified[i],
  }))
  return { total: found.length, models }
}

/** Names of the models that most sites have, without visiting every entry again. */
export function offeredModels(snapshot: Snapshot, countMax: number): string[] {
  const { names } = snapshot.models
  return getRanking(snapshot)
    .order.slice(0, countMax)
    .map((place) => names[place])
}

/** Whether a site claims or lists this model, in any spelling. */
export function havingModel(
  { models, generatedAtSec }: Snapshot,
  model: string,
): (site: SiteState) => boolean {
  const place = models.findModel(modelKey(model))
  return ({ id }) => models.has(id, place, generatedAtSec)
}

/** The spelling of the index, of a model that a site has: what is shown for text from an address. */
export function modelName({ models }: Snapshot, model: string): string | undefined {
  return models.names[models.findModel(modelKey(model))]
}

/** Whether the site's listing returns this model now; false also if the site only claims it. */
export function isModelVerified({ models, generatedAtSec }: Snapshot, model: string, { id }: SiteState) {
  return (models.flags(id, models.findModel(modelKey(model)), generatedAtSec) & VERIFIED) !== 0
}

interface Ranking {
  counts: Uint32Array // by place
  order: readonly number[] // places that any published site has
}
const rankings = new WeakMap<Snapshot, Ranking>()

function getRanking(snapshot: Snapshot): Ranking {
  const known = rankings.get(snapshot)
  if (known) return known
  const ranking = rank(snapshot)
  rankings.set(snapshot, ranking)
  return ranking
}

function rank({ models, sites, generatedAtSec }: Snapshot): Ranking {
  const { names } = models
  const counts = new Uint32Array(names.length)
  for (const { id } of sites) models.each(id, generatedAtSec, (place) => counts[place]++)
  const order = [...counts.keys()].filter((place) => counts[place] > 0)
  order.sort((a, b) => counts[b] - counts[a] || (names[a] < names[b] ? -1 : 1))
  return { counts, order }
}

/** Slugs in the order of the snapshot, for each place of the page. */
function verifiedSites({ models, sites, generatedAtSec }: Snapshot, page: readonly number[]): string[][] {
  const lists = page.map((): string[] => [])
  const rows = new Int32Array(models.names.length).fill(-1) // place → row of the page
  for (const [row, place] of page.entries()) rows[place] = row
  for (const { id, slug } of sites) {
    models.each(id, generatedAtSec, (place, flags) => {
      if (rows[place] < 0 || (flags & VERIFIED) === 0) return
      const list = lists[rows[place]]
      if (list.length < VERIFIED_SITES_MAX) list.push(slug)
    })
  }
  return lists
}
