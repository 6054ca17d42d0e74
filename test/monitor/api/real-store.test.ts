/** The API over the real store: a probed site, read back through SQLite, conforms to the document. */
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { DetectionQueue } from '../../../monitor/detections/detection-queue.ts'
import type { CatalogueSite } from '../../../monitor/facts.ts'
import { openStore } from '../../../monitor/storage/store.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { NETWORK, NOON } from './fake-store.ts'
import { startApi } from './setup.ts'

const SITE: CatalogueSite = {
  ...{ slug: 'relay', name: 'Relay', url: 'https://relay.example.com', apiBase: 'https://relay.example.com' },
  ...{ firstSeen: '2025-01-01', modelsClaimed: [], keyFile: null, aliases: ['old'], regions: ['overseas'] },
  ...{ intervalSec: null, hasScreenshot: false, flags: [], isHidden: false },
}
const timings = { dnsMs: 4, connectMs: 38, tlsMs: 44, ttfbMs: 212, totalMs: 230 }
const probe = {
  atSec: NOON - 60,
  kind: 'full',
  outcome: 'up',
  error: null,
  httpStatus: 401,
  timings,
} as const
const hygiene = { redirectsToHttps: null, hasHsts: null, leaksUpstream: null }

test('3.2: a probed site and a detection go through the real store and back', async () => {
  const folder = makeTemporaryFolder()
  const store = await openStore({ path: join(folder, 'monitor.db'), log: () => {} })
  const nowMs = () => NOON * 1_000
  const queue = new DetectionQueue({ store, nowMs, reuseSec: 600, queueMax: 100, runningMax: 4 })
  const api = await startApi({ snapshot: () => store.snapshot, details: store, detections: queue })
  try {
    const { ids } = await store.request({ kind: 'sync-catalogue', sites: [SITE], nowSec: NOON })
    const vantage = { name: 'main', region: 'overseas', country: null } as const
    const vantageId = await store.request({ kind: 'vantage', ...vantage })
    const siteId = ids.relay
    store.write({ kind: 'probe', siteId, vantageId, probe })
    const models = [{ key: 'gpt-5.4', id: 'gpt-5.4', isClaimed: true, isVerified: true }]
    const observation = {
      atSec: NOON - 60,
      models: ['gpt-5.4'],
      listing: 'open',
      claimed: [],
      isParked: false,
    } as const
    store.write({
      ...{ kind: 'observation', siteId, models },
      observation: { ...observation, models: ['gpt-5.4'], claimed: [], profile: NETWORK, hygiene },
    } as never)
    store.write({
      kind: 'score',
      siteId,
      tier: 'B',
      tierSinceSec: NOON - 60,
      score: 70,
      facts: { p50Ms: 212 },
    })
    await store.flush()
    await store.tick(NOON)
    await store.tick(NOON + 6)
    expect((await api.get('/api/v1/sites?include=summary')).json).toMatchObject({
      total: 1,
      sites: [{ slug: 'relay' }],
    })
    for (const history of ['hour', 'day', 'raw']) {
      const { json } = await api.get(`/api/v1/sites/old?history=${history}`)
      expect(json).toMatchObject({ slug: 'relay', probe_history: [{ probes: 1, up: 1, http_status: 401 }] })
      expect(json).toMatchObject({ model_list_verified: ['gpt-5.4'], screenshot_url: null })
    }
    for (const path of ['score', 'history', 'models', 'incidents']) {
      expect((await api.get(`/api/v1/sites/relay/${path}`)).status).toBe(200)
    }
    const { json, headers } = await api.submit('https://a.example.com')
    await store.flush()
    const { id } = json as { id: string }
    expect((await store.read('detection', id))?.targetKey).toBe('https://a.example.com')
    expect((await api.get(headers.location)).json).toEqual(json)
  } finally {
    api.close()
    await store.close()
  }
})
