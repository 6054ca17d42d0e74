/** What a visitor's browser transfers (spec 11): bytes of the first page with all it loads, of all modules together. */
import { readdirSync } from 'node:fs'
import { request } from 'node:http'
import { gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seeded } from '../../../bench/size.ts'
import type { SiteFacts } from '../../../monitor/api/site-facts.ts'
import { Assets } from '../../../monitor/site/assets.ts'
import { createSnapshot, SITES, site } from '../api/fake-store.ts'
import { startSite } from './setup.ts'

const FIRST_PAGE_BYTES_MAX = 60 * 1024
const MODULES_BYTES_MAX = 30 * 1024
const PAGE_SITES = 50
const ASSETS = new URL('../../../monitor/site/assets/', import.meta.url)

let web: Awaited<ReturnType<typeof startSite>>
beforeAll(async () => {
  web = await startSite({})
  const random = seeded(17)
  const sites = Array.from({ length: PAGE_SITES }, (_, i) => createSite(i, random))
  web.state.snapshot = createSnapshot(sites, { version: 9 })
})
afterAll(() => web.close())

/** Every figure differs from site to site, since equal rows would compress better than real ones. */
function createSite(i: number, random: () => number) {
  const facts: SiteFacts = {
    ...(SITES[0].facts as SiteFacts),
    availability7d: random(),
    availability30d: random(),
    p50Ms: Math.round(2_000 * random()),
    days: Array.from({ length: 30 }, () => random()),
    modelsClaimed: Math.round(90 * random()),
  }
  const slug = `relay-${Math.round(random() * 2 ** 32).toString(36)}`
  return site(i + 1, slug, { facts, tier: 'SABCD'[i % 5] as 'S', score: 100 * random() })
}

test.each(['br', 'gzip'])(
  '11: the list of 50 sites and all it loads is below 60 KiB in %s',
  async (coding) => {
    const page = await web.get('/', { 'accept-encoding': coding })
    const paths = [...page.text.matchAll(/(?:src|href)="(\/(?:assets\/|favicon|manifest)[^"]+)"/g)].map(
      ([, path]) => path,
    )
    expect(paths.length).toBeGreaterThanOrEqual(5) // style sheet, two modules, icon, manifest
    let bytes = 0
    for (const path of ['/', ...new Set(paths)]) bytes += (await read(path, coding)).length
    expect(bytes).toBeLessThan(FIRST_PAGE_BYTES_MAX)
    expect(bytes).toBeGreaterThan(FIRST_PAGE_BYTES_MAX / 10) // that something was counted
  },
)

test('11: all modules are at most 30 KiB in gzip', async () => {
  const names = readdirSync(ASSETS).filter((name) => name.endsWith('.js'))
  expect(names.length).toBeGreaterThanOrEqual(4)
  const assets = new Assets()
  const forms = await Promise.all(names.map((name) => assets.get(name).body.form('gzip')))
  for (const form of forms) expect(gunzipSync(form).length).toBeGreaterThan(form.length)
  const bytes = forms.reduce((sum, { length }) => sum + length, 0)
  expect(bytes).toBeLessThanOrEqual(MODULES_BYTES_MAX)
})

/** The body as it is on the wire. */
function read(path: string, coding: string): Promise<Buffer> {
  return new Promise((resolve, reject) => {
    const outgoing = request(web.origin + path, { headers: { 'accept-encoding': coding } }, (response) => {
      const chunks: Buffer[] = []
      response.on('data', (chunk) => chunks.push(chunk))
      response.on('end', () => resolve(Buffer.concat(chunks)))
    })
    outgoing.on('error', reject).end()
  })
}
