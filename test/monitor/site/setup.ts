/** The web site on a port of its own, over a fake store. Each page that is read takes a second, so no quota of pages is met. */
import { DIRECT } from '../../../monitor/api/client-address.ts'
import { defaultRules, quotaRules } from '../../../monitor/api/default-rules.ts'
import { DetectionQueue } from '../../../monitor/detections/detection-queue.ts'
import { checkUrl } from '../../../monitor/egress/url-policy.ts'
import type { WebSiteOptions } from '../../../monitor/site/options.ts'
import { WebSite } from '../../../monitor/site/web-site.ts'
import type { Snapshot } from '../../../monitor/storage/snapshot.ts'
import { openUws } from '../../../transports/uws.ts'
import { engine } from '../../engine/harness.ts'
import { createSnapshot, FakeStore, NOON } from '../api/fake-store.ts'

export async function startSite(options: Partial<WebSiteOptions> = {}) {
  const clock = { ms: NOON * 1_000 }
  const nowMs = () => clock.ms
  const { engine: limiter } = engine(null, { nowSec: () => Math.floor(clock.ms / 1_000) })
  limiter.setRules(quotaRules(null, await defaultRules()))
  const store = new FakeStore()
  const state = { snapshot: createSnapshot() as Snapshot | null }
  const logged: string[] = []
  const detections = new DetectionQueue({ store, nowMs, reuseSec: 600, queueMax: 100, runningMax: 4 })
  const policy = {
    ports: new Set([80, 443]),
    addresses: { deny: [], nat64: null, testAllow: [] },
    ownNames: new Set<string>(),
    optOut: new Set<string>(),
  }
  const site = new WebSite({
    limiter,
    nowMs,
    snapshot: () => state.snapshot,
    details: store,
    detections,
    checkUrl: (text) => checkUrl(text, policy, []),
    hasDetections: true,
    address: DIRECT,
    publicBaseUrl: '',
    supportEmail: 'help@example.org',
    isSharedCache: false,
    probeIntervalSec: 300,
    userAgent: 'relay-monitor/0.1',
    images: { get: async () => null },
    log: (_, message) => logged.push(message),
    ...options,
  })
  const opened = openUws('127.0.0.1', 0, (app) => app.any('/*', (res, req) => site.handle(res, req)))!
  const origin = `http://127.0.0.1:${opened.port}`
  const get = async (path: string, headers: Record<string, string> = {}) => {
    clock.ms += 1_000
    const response = await fetch(origin + path, { headers, redirect: 'manual' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  const post = async (path: string, form: Record<string, string>, headers: Record<string, string> = {}) => {
    const body = new URLSearchParams(form)
    const response = await fetch(origin + path, { method: 'POST', body, headers, redirect: 'manual' })
    return { status: response.status, headers: response.headers, text: await response.text() }
  }
  return { site, origin, get, post, state, store, detections, logged, close: () => opened.close() }
}
