/**
 * Every link of a running monitor can be followed: in headers, in bodies, in errors, in the prober's User-Agent.
 *
 *     index ─► each endpoint ─► Link, Location, Content-Location, and each URL in its body ─► 2xx
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type FakeRelay, startFakeRelay } from '../helpers/fake-relays.ts'
import { MONITOR_LISTENS, monitorUrl, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { soonProbed } from '../helpers/slugs.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const BASE_URL = 'https://monitor.example.org'
const EMAIL = 'help@example.org'
const SLUICE =
  process.env.SLUICE_TEST_SCRIPT ?? fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const SLUG = soonProbed('relay', 60)
const SITE_MEMBERS = ['url', 'example', 'examples'] // their URLs are of relays, or examples
const WAIT = { timeout: 20_000 }

interface Page {
  status: number
  headers: Headers
  // biome-ignore lint/suspicious/noExplicitAny: parsed JSON, null for other content
  json: any
}

// Both services use this folder, the second one after the first: boards exist after a pass over all sites.
const folder = makeTemporaryFolder()
let relay: FakeRelay

beforeAll(async () => {
  relay = await startFakeRelay('new-api')
  const site = `{ slug: ${SLUG}, name: Relay, url: "http://relay.example.com", flags: [scam], aliases: [old-relay] }`
  writeFileSync(join(folder, 'catalogue.yaml'), `version: 1\nsites:\n  - ${site}\n`)
})
afterAll(() => relay.close())

test.each(['', BASE_URL])(
  '1.2, 7.4, 9: each link can be followed; PUBLIC_BASE_URL "%s"',
  async (base) => {
    relay.userAgent = ''
    const fetchPage = await startMonitor(base)
    const fetchBlackBoard = () => fetchPage('/api/v1/leaderboard?board=black')
    await expect.poll(async () => (await fetchPage('/api/v1/sites')).json?.total, WAIT).toBe(1)
    if (!(await fetchBlackBoard()).json.total) await recompute()
    await expect.poll(async () => (await fetchBlackBoard()).json.total, WAIT).toBe(1)
    const submitted = await fetchPage('/api/v1/detections', {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url: 'http://relay.example.com/' }),
    })
    const { id } = submitted.json as { id: string }
    const fill = (path: string) => path.replaceAll('{slug}', SLUG).replaceAll('{id}', id)
    const known = [
      '/api/v1',
      '/api/v1/leaderboard?board=black',
      '/api/v1/sites?limit=1&offset=1',
      '/api/v1/sites/old-relay',
      '/healthz',
      '/readyz',
      '/about/probe',
    ]
    const links = new Set<string>([...known, ...findLinks(submitted)])
    for (const path of ['/api/v9/sites', '/api/v1/nothing', '/api/v1/sites/unknown'])
      for (const link of findLinks(await fetchPage(path))) links.add(link)
    await expect.poll(() => relay.userAgent, WAIT).not.toBe('') // probed by this service
    const agentLink = /\(\+(\S+)\)/.exec(relay.userAgent)?.[1] ?? null
    expect(agentLink).toBe(base === '' ? null : `${base}/about/probe`)
    if (agentLink) links.add(agentLink)

    const broken: string[] = []
    for (const link of links) {
      if (link.startsWith('mailto:')) continue
      const path = fill(base === '' ? link : link.replace(base, ''))
      const isPostOnly = path === '/api/v1/detections'
      const page = await fetchPage(path, isPostOnly ? { method: 'OPTIONS' } : {})
      if (page.status >= 300) broken.push(`${link}: ${page.status}`)
      for (const found of findLinks(page)) links.add(found)
    }
    expect(broken).toEqual([])
    expect((await fetchBlackBoard()).json.entries[0]).toMatchObject({
      evidence_url: `${base}/api/v1/sites/${SLUG}`,
      appeal_url: `mailto:${EMAIL}`,
    })
    const all = [...links].map(fill)
    expect(all).toEqual(
      expect.arrayContaining([
        '/api/v1/changelog',
        '/api/v1/openapi.json',
        `${base}/methodology`,
        `mailto:${EMAIL}`,
      ]),
    )
    expect(all.length).toBeGreaterThan(15)
  },
  60_000,
)

async function startMonitor(base: string): Promise<(path: string, init?: RequestInit) => Promise<Page>> {
  const service = spawnMonitor({
    folder,
    rules: quotas(),
    hosts: { 'relay.example.com': relay.port },
    env: { PUBLIC_BASE_URL: base, SUPPORT_EMAIL: EMAIL },
  })
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged(MONITOR_LISTENS)
  const { origin } = new URL(monitorUrl(service))
  return async (path, init) => {
    const response = await fetch(origin + path, init)
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.startsWith('application/json')
    return { status: response.status, headers: response.headers, json: isJson ? JSON.parse(text) : null }
  }
}

/** Makes the boards, which the monitor itself makes with its next pass over all sites, in a minute. */
async function recompute(): Promise<void> {
  await promisify(execFile)(process.execPath, [SLUICE, 'monitor', 'recompute'], {
    env: { PATH: process.env.PATH, MONITOR_DATA_DIR: folder, PROBE_INTERVAL_S: '60' },
  })
}

function findLinks({ headers, json }: Pick<Page, 'headers' | 'json'>): string[] {
  const listed = [...(headers.get('link') ?? '').matchAll(/<([^>]+)>/g)].map(([, link]) => link)
  const places = [headers.get('location'), headers.get('content-location')].filter((link) => link !== null)
  return [...listed, ...places, ...findUrls(json)].map((link) => link.split('#')[0])
}

function findUrls(value: unknown): string[] {
  if (typeof value === 'string') return /^(https?:\/\/|mailto:|\/[a-z])/.test(value) ? [value] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value)
    .filter(([name]) => !SITE_MEMBERS.includes(name))
    .flatMap(([, each]) => findUrls(each))
}
