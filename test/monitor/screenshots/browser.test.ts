/** One picture by a real Chromium: what it shows, and what pages may not do. How the browser ends: browser-ends.test.ts. */
import { readFileSync } from 'node:fs'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { SCREENSHOT_LIMITS } from '../../../monitor/screenshots/limits.ts'
import { readWebpSize } from '../../../monitor/screenshots/webp.ts'
import { makeCertificates } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { size } from '../../helpers/size.ts'
import { reply, startRaw } from '../egress/raw-server.ts'
import { startWorld, type World } from '../egress/setup.ts'
import { expectNothingLeft, holdPath, OWNER, page, requestsFor, type Taken, takeIn } from './setup.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
  world.relay.on('/report', reply('HTTP/1.1 204 No Content\r\n\r\n'))
})
beforeEach(() => {
  world.relay.requests.length = 0
})
afterEach(async () => {
  await expectNothingLeft()
  expect(world.tripped()).toBe(0)
})
afterAll(() => world.close())

const REPORT = "const report = (text) => fetch('/report?' + encodeURIComponent(text));"

/** What scripts of pages reported to their relay, in order. */
function reported(requests = world.relay.requests): string[] {
  return requests
    .filter((head) => head.startsWith('GET /report?'))
    .map((head) => decodeURIComponent(head.split(' ')[1].slice('/report?'.length)))
}

test('M8.3#4: a picture is WebP of 1280 x 800 in at most 400 KiB, 2 s after the page has loaded; two at once', async () => {
  expect(SCREENSHOT_LIMITS).toMatchObject({
    width: 1_280,
    height: 800,
    settleMs: 2_000,
    imageBytesMax: 409_600,
  })
  expect(SCREENSHOT_LIMITS.qualities[0]).toBe(75)
  let loadedAtMs = Number.NaN
  world.relay.on('/loaded', (socket) => {
    loadedAtMs = performance.now()
    socket.write('HTTP/1.1 204 No Content\r\n\r\n')
  })
  const script = `${REPORT}
    report([innerWidth, innerHeight, devicePixelRatio, matchMedia('(prefers-color-scheme: light)').matches].join())
    addEventListener('load', () => fetch('/loaded'))`
  world.relay.on('/happy', page(`<h1>Hello</h1><script>${script}</script>`))
  world.relay.on('/other', page('<h1>Other</h1>'))
  const [{ image, failure }, other] = await Promise.all([
    takeIn(world, { path: '/happy', limits: { settleMs: 2_000 } }),
    takeIn(world, { path: '/other', owner: `${OWNER}b` }),
  ])
  expect([failure, other.failure]).toEqual([null, null])
  expect(performance.now() - loadedAtMs).toBeGreaterThan(1_500)
  for (const each of [image!, other.image!]) {
    expect(readWebpSize(each)).toEqual({ width: 1_280, height: 800 })
    expect(each.length).toBeLessThan(409_600)
  }
  expect(reported()).toEqual(['1280,800,1,true'])
  await expectNothingLeft(`${OWNER}b`)
})

test('M8.3#4: a picture over its size is taken again at a lower quality, and not kept if none is low enough', async () => {
  const noise = `<canvas width=640 height=400></canvas><style>body{margin:0}</style><script>
    const c = document.querySelector('canvas').getContext('2d'), d = c.createImageData(640, 400)
    let seed = 1
    for (let i = 0; i < d.data.length; i++) d.data[i] = i % 4 === 3 ? 255 : (seed = seed * 16807 % 2147483647) & 255
    c.putImageData(d, 0, 0)</script>`
  world.relay.on('/noise', page(noise))
  const take = (qualities: number[]) =>
    takeIn(world, { path: '/noise', limits: { qualities, imageBytesMax: 100_000 } })
  const [high, lower] = [await take([75]), await take([75, 1])]
  expect(high.failure?.reason).toBe('image_too_large')
  expect(lower.image!.length).toBeLessThan(100_000)
})

test('a page that waits for one of its parts is shown without it', async () => {
  world.relay.on('/never', () => {})
  world.relay.on('/waits', page('<h1>Shown</h1><img src=/never>'))
  let taken: Taken
  let ms = 5_000 // a busy machine needs more until the document is there
  do {
    taken = await takeIn(world, { path: '/waits', limits: { ms } })
    ms *= 2
  } while (taken.failure?.reason === 'timeout' && ms < 60_000)
  expect(taken.failure).toBeNull()
  expect(readWebpSize(taken.image!)).toEqual({ width: 1_280, height: 800 })
})

// The short form leaves out a second status.
// biome-ignore format: a table
const responses = [
  // what, response → reason
  ['a status of 404',         'HTTP/1.1 404 No\r\ncontent-length: 1\r\n\r\nx',      'http_error'],
  ['bytes that are not HTTP', 'SSH-2.0-OpenSSH_9.2\r\n',                            'http_error'], // 502 of the proxy
  ['a download',              'HTTP/1.1 200 OK\r\ncontent-disposition: attachment; filename=x.exe\r\ncontent-length: 1\r\n\r\nx', 'unreachable'],
  ['a status of 503',         'HTTP/1.1 503 No\r\ncontent-length: 1\r\n\r\nx',      'http_error'],
] as const
for (const [what, response, reason] of responses.slice(0, size({ small: 3, full: responses.length }))) {
  test(`no picture of ${what}: ${reason}`, async () => {
    world.relay.on('/response', (socket) => socket.end(response))
    expect((await takeIn(world, { path: '/response' })).failure?.reason).toBe(reason)
  })
}

test('M8.3#3: permissions, dialogs, windows, downloads and service workers are denied', async () => {
  const certificates = await makeCertificates('DNS:relay.example.org')
  const tls = { cert: readFileSync(certificates.cert), key: readFileSync(certificates.key) }
  const relay = await startRaw('127.0.0.2', 0, tls) // most of these exist in secure contexts only
  const script = `
    const report = (text) => fetch('/report?' + encodeURIComponent(text));
    (async () => {
      const names = ['geolocation', 'notifications', 'camera', 'microphone', 'clipboard-read', 'midi']
      for (const name of names) await report(name + ' ' + (await navigator.permissions.query({ name })).state)
      await report('notification ' + typeof Notification)
      await report('window ' + Boolean(open('/window')))
      const link = Object.assign(document.createElement('a'), { href: '/window', target: '_blank' })
      document.body.append(link)
      link.click()
      await report('confirm ' + confirm('?') + ' ' + prompt('?'))
      await report('worker ' + Boolean(await navigator.serviceWorker.register('/sw.js')))
      if (document.readyState !== 'complete') await new Promise((resolve) => addEventListener('load', resolve))
      location = '/file' // not shown, and not a reason to take no picture
    })().catch((error) => report('failed ' + error))`
  relay.on('/secure', page(`<body><img src=/late><script>${script}</script>`))
  relay.on('/report', reply('HTTP/1.1 204 No Content\r\n\r\n'))
  relay.on('/file', reply('HTTP/1.1 200 OK\r\ncontent-disposition: attachment\r\ncontent-length: 1\r\n\r\nx'))
  const late = holdPath({ ...world, relay }, '/late')
  const taking = takeIn(world, {
    ...{ path: '', url: `https://relay.example.org:${relay.port}/secure`, acceptsAnyCertificate: true },
    egress: world.egress({}, { PROBE_PORTS: String(relay.port) }),
    limits: { settleMs: 500 },
  })
  await eventually(() => expect(reported(relay.requests)).toContain('worker false'))
  late()
  expect((await taking).failure).toBeNull()
  const lines = reported(relay.requests)
  const denied = ['geolocation', 'notifications', 'camera', 'microphone', 'clipboard-read', 'midi'].map(
    (name) => `${name} denied`,
  )
  expect(lines).toEqual([
    ...denied,
    'notification undefined',
    'window false',
    'confirm false null',
    'worker false',
  ])
  expect(relay.requests.filter((head) => /^GET \/(window|sw)/.test(head))).toEqual([])
  await relay.close()
  await certificates.remove()
})

test('M8.3#3: requests beyond their number are refused', async () => {
  world.relay.on('/counted', reply('HTTP/1.1 204 No Content\r\n\r\n'))
  const script = `for (let i = 0; i < 300; i++) new Image().src = '/counted?' + i` // the page has loaded when all have ended
  world.relay.on('/many', page(`<script>${script}</script>`))
  expect((await takeIn(world, { path: '/many', limits: { requests: 60 } })).failure).toBeNull()
  expect(requestsFor(world, '/counted')).toBeGreaterThan(40)
  expect(requestsFor(world, '/counted')).toBeLessThan(60)
})
