/** Screenshots in the whole service: from the catalogue to the picture on the page of its site (spec 8.3). */
import { writeFileSync } from 'node:fs'
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { toOwner } from '../../monitor/screenshots/run-folder.ts'
import { readWebpSize } from '../../monitor/screenshots/webp.ts'
import { eventually } from '../helpers/eventually.ts'
import { startFakeRelay } from '../helpers/fake-relays.ts'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { certificatesFor } from '../helpers/screenshot-relay.ts'
import { soonProbed } from '../helpers/slugs.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'
import { expectNothingLeft, isRoot } from '../monitor/screenshots/setup.ts'

const SLUG = soonProbed('relay', 60)
const HOST = 'relay.example.com'

function start(folder: string, port: number, env: Record<string, string> = {}) {
  return spawnMonitor({
    ...{ folder, rules: quotas(), hosts: { [HOST]: port } },
    env: { SCREENSHOTS_ENABLED: 'auto', LOG_LEVEL: 'info', SCREENSHOT_NO_SANDBOX: String(isRoot), ...env },
  })
}

test('M8.3#1 M8.3#4: a site without a picture gets one; it is served, shown and kept', async () => {
  const folder = makeTemporaryFolder()
  const { certificates, env } = await certificatesFor(HOST)
  const relay = await startFakeRelay('new-api', { tls: certificates })
  onTestFinished(() => relay.close())
  const lines = [
    `{ slug: ${SLUG}, name: Relay, url: "https://${HOST}" }`,
    `{ slug: hidden, name: Off, url: "https://off.${HOST}", screenshot: false }`,
  ]
  writeFileSync(
    join(folder, 'catalogue.yaml'),
    `version: 1\nsites:\n${lines.map((line) => `  - ${line}\n`).join('')}`,
  )
  const service = start(folder, relay.port, env)
  await service.logged(MONITOR_LISTENS)
  const origin = `http://${service.address('the monitor')}`
  const read = async (path: string) =>
    (await fetch(`${origin}/api/v1/${path}`)).json() as Promise<{
      screenshot_url: string
      screenshots: unknown
    }>
  await eventually(() => expect(service.log).toContain(`screenshot of ${SLUG}: `))
  await eventually(async () => expect((await read(`sites/${SLUG}`)).screenshot_url).toMatch(/^\/media\//))
  expect((await read('meta')).screenshots).toEqual({ enabled: true })

  const { screenshot_url: url } = await read(`sites/${SLUG}`)
  expect(url).toBe(`/media/screenshots/${SLUG}/${new Date().toISOString().slice(0, 7)}.webp`)
  const response = await fetch(origin + url)
  const image = Buffer.from(await response.arrayBuffer())
  expect(readWebpSize(image)).toEqual({ width: 1_280, height: 800 })
  expect([...response.headers.keys()].sort()).toEqual(
    [
      'cache-control',
      'content-length',
      'content-security-policy',
      'content-type',
      'date',
      'etag',
      'uwebsockets',
      'x-content-type-options',
      'x-request-id',
    ].filter((name) => name !== 'uwebsockets' || response.headers.has(name)),
  )
  expect(Object.fromEntries(response.headers)).toMatchObject({
    'content-type': 'image/webp',
    'cache-control': 'public, max-age=31536000, immutable',
    'x-content-type-options': 'nosniff',
    'content-security-policy': "default-src 'none'; sandbox",
  })
  const page = await (await fetch(`${origin}/sites/${SLUG}`)).text()
  expect(page).toContain(
    `<img src="${url}" alt="Landing page of Relay on ${new Date().toISOString().slice(0, 10)}" width="1280" height="800" loading="lazy">`,
  )
  expect(await readdir(join(folder, 'screenshots'))).toHaveLength(1)

  const { code, log } = await service.stop()
  expect(code).toBe(0)
  expect(log).toContain(`screenshot of ${SLUG}: `)
  expect(log).not.toContain('screenshot of hidden')
  await expectNothingLeft(toOwner(folder, 'monitor'))
})

test('M8.3#2: as root without SCREENSHOT_NO_SANDBOX, or without a browser: off, one log line, and meta says so', async () => {
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'catalogue.yaml'), 'version: 1\nsites: []\n')
  const env: Record<string, string> = isRoot
    ? { SCREENSHOT_NO_SANDBOX: 'false' }
    : { CHROMIUM_PATH: '/nonexistent/chromium', SCREENSHOTS_ENABLED: 'auto' }
  const service = start(folder, 1, env)
  await service.logged(MONITOR_LISTENS)
  const meta = await (await fetch(`http://${service.address('the monitor')}/api/v1/meta`)).json()
  expect(meta).toMatchObject({ screenshots: { enabled: false } })
  const { log } = await service.stop()
  expect(log.match(/no screenshots are taken/g)).toHaveLength(1)
  expect(log).toContain(isRoot ? 'SCREENSHOT_NO_SANDBOX=true' : 'CHROMIUM_PATH')
})
