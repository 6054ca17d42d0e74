/**
 * Every link that a running monitor hands out leads somewhere: in headers, in bodies, in errors, in the prober's User-Agent.
 *
 *     index ─► each endpoint ─► Link, Location, Content-Location, and each text of its body that is an address ─► 2xx
 */
import { execFile } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { expect, onTestFinished, test } from 'vitest'
import { startFakeRelay } from '../helpers/fake-relays.ts'
import { MONITOR_LISTENS, monitorUrl, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { soonProbed } from '../helpers/slugs.ts'

const BASE_URL = 'https://monitor.example.org'
const EMAIL = 'help@example.org'
const SLUICE = fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const SLUG = soonProbed('relay', 60)
const OF_SITES = ['url', 'example', 'examples'] // members whose addresses are those of relays, or of no site at all

test.each(['', BASE_URL])(
  '1.2, 7.4, 9: no link leads nowhere; PUBLIC_BASE_URL "%s"',
  async (base) => {
    const folder = mkdtempSync(join(tmpdir(), 'sluice-links-'))
    onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
    const relay = await startFakeRelay('new-api')
    onTestFinished(() => relay.close())
    const site = `{ slug: ${SLUG}, name: Relay, url: "http://relay.example.com", flags: [scam], aliases: [old-relay] }`
    writeFileSync(join(folder, 'catalogue.yaml'), `version: 1\nsites:\n  - ${site}\n`)
    const service = spawnMonitor({
      folder,
      rules: quotas(),
      hosts: { 'relay.example.com': relay.port },
      env: { PUBLIC_BASE_URL: base, SUPPORT_EMAIL: EMAIL },
    })
    onTestFinished(() => service.stop('SIGKILL').then(() => {}))
    await service.logged(MONITOR_LISTENS)
    const origin = new URL(monitorUrl(service)).origin
    const ask = async (path: string, init?: RequestInit) => {
      const response = await fetch(origin + path, init)
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.startsWith('application/json')
      return { status: response.status, headers: response.headers, json: isJson ? JSON.parse(text) : null }
    }
    const black = () => ask('/api/v1/leaderboard?board=black')
    const listed = async () => (await ask('/api/v1/sites')).json?.total
    await expect.poll(listed, { timeout: 30_000 }).toBe(1)
    // Boards are made with the next pass over all sites, in a minute; an operator can have one now.
    await promisify(execFile)(process.execPath, [SLUICE, 'monitor', 'recompute'], {
      env: { PATH: process.env.PATH, MONITOR_DATA_DIR: folder, PROBE_INTERVAL_S: '60' },
    })
    await expect.poll(async () => (await black()).json.total, { timeout: 30_000 }).toBe(1)
    const submitted = await ask('/api/v1/detections', {
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
    ]
    const waiting = new Set<string>([...known, ...linksOf(submitted)])
    for (const path of ['/api/v9/sites', '/api/v1/nothing', '/api/v1/sites/nobody'])
      for (const link of linksOf(await ask(path))) waiting.add(link)
    const agent = /\(\+(\S+)\)/.exec(relay.userAgent)?.[1] ?? null
    expect(agent).toBe(base === '' ? null : `${base}/about/probe`)
    if (agent) waiting.add(agent)
    waiting.add('/about/probe')

    const lost: string[] = []
    for (const link of waiting) {
      if (link.startsWith('mailto:')) continue
      const path = fill(base === '' ? link : link.replace(base, ''))
      const isTaken = path === '/api/v1/detections'
      const answer = await ask(path, isTaken ? { method: 'OPTIONS' } : {})
      if (answer.status >= 300) lost.push(`${link}: ${answer.status}`)
      for (const found of linksOf(answer)) waiting.add(found)
    }
    expect(lost).toEqual([])
    expect((await black()).json.entries[0]).toMatchObject({
      evidence_url: `${base}/api/v1/sites/${SLUG}`,
      appeal_url: `mailto:${EMAIL}`,
    })
    const all = [...waiting].map(fill)
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
  120_000,
)

function linksOf({ headers, json }: { headers: Headers; json: unknown }): string[] {
  const ofLink = [...(headers.get('link') ?? '').matchAll(/<([^>]+)>/g)].map(([, link]) => link)
  const ofPlace = [headers.get('location'), headers.get('content-location')].filter((link) => link !== null)
  return [...ofLink, ...ofPlace, ...addressesIn(json)].map((link) => link.split('#')[0])
}

function addressesIn(value: unknown): string[] {
  if (typeof value === 'string') return /^(https?:\/\/|mailto:|\/[a-z])/.test(value) ? [value] : []
  if (typeof value !== 'object' || value === null) return []
  return Object.entries(value)
    .filter(([name]) => !OF_SITES.includes(name))
    .flatMap(([, each]) => addressesIn(each))
}
