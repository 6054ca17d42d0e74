/**
 * The prober's corpus (spec 13.7) from within a page: a hostile page in a real Chromium tries to reach what the proxy must not
 * reach, and what could bypass the proxy. The tripwires on 127.0.0.1 and ::1, TCP and UDP, must see nobody. That they would
 * is shown by the same pages under a policy that allows 127.0.0.1.
 */
import { createSocket, type Socket } from 'node:dgram'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { eventually } from '../../helpers/eventually.ts'
import { size } from '../../helpers/size.ts'
import { ANSWERS, LOCATIONS, URLS } from '../egress/corpus.ts'
import { redirect, reply } from '../egress/raw-server.ts'
import { startWorld, type World } from '../egress/setup.ts'
import { expectNothingLeft, holdPath, page, requestsFor, takeIn } from './setup.ts'

let world: World
let udp: Socket
let datagrams = 0

beforeAll(async () => {
  world = await startWorld()
  world.dns.setRecords('loopback.example.org', { A: ['127.0.0.1'] })
  world.dns.setRecords('mixed.example.org', { A: ['127.0.0.2', '127.0.0.1'] })
  for (const [i, [, A, AAAA]] of ANSWERS.entries())
    world.dns.setRecords(`answer-${i}.example.org`, { A: [...A], AAAA: [...AAAA] })
  world.relay.on('/report', reply('HTTP/1.1 204 No Content\r\n\r\n'))
  udp = createSocket('udp4')
  udp.on('message', () => datagrams++)
  await new Promise<void>((resolve) => udp.bind(0, '127.0.0.1', resolve))
})
beforeEach(() => {
  world.relay.requests.length = 0
})
afterEach(async () => {
  expect(world.tripped()).toBe(0)
  expect(datagrams).toBe(0)
  await expectNothingLeft()
})
afterAll(async () => {
  udp.close()
  await world.close()
})

/** Sum of what the policy of this egress refused. */
const countDenials = ({ denials }: ReturnType<World['egress']>) =>
  [...denials.values()].reduce((sum, count) => sum + count, 0)

const withPort = (text: string) => text.replaceAll('PORT', String(world.port))
const many = { requests: 100_000, memoryBytesMax: 4 * 2 ** 30 } // so that no bound but the policy refuses anything

const LOOPBACK = [
  ...['http://127.0.0.1:PORT/x', 'http://127.1:PORT/x', 'http://[::1]:PORT/x', 'http://localhost:PORT/x'],
  ...['http://0x7f000001:PORT/x', 'http://[::ffff:127.0.0.1]:PORT/x', 'http://loopback.example.org:PORT/x'],
  ...[
    'http://mixed.example.org:PORT/x',
    'https://127.0.0.1:PORT/x',
    'http://0:PORT/x',
    'http://a.localhost:PORT/x',
  ],
]

/** Switched off by flags: no request is made at all. */
const OFF = ['speculation', 'windows', 'pings', 'WebTransport']

/** Ways in which a page makes a request, as a body of a function of `url`. */
// biome-ignore format: a table
const WAYS: readonly (readonly [way: string, script: string])[] = [
  ['images',           'new Image().src = url'],
  ['fetch',            "fetch(url, { mode: 'no-cors' }).catch(() => {})"],
  ['keepalive fetch',  "fetch(url, { mode: 'no-cors', method: 'POST', body: 'x', keepalive: true }).catch(() => {})"],
  ['frames',           "add('iframe', { src: url })"],
  ['sandboxed frames', "add('iframe', { src: url, sandbox: 'allow-scripts' })"],
  ['objects',          "add('object', { data: url }); add('embed', { src: url })"],
  ['scripts, styles',  "add('script', { src: url }); add('link', { rel: 'stylesheet', href: url })"],
  ['preconnect',       "for (const rel of ['preconnect', 'dns-prefetch', 'prefetch', 'preload', 'modulepreload', 'prerender', 'icon', 'manifest']) add('link', { rel, href: url, as: 'image' })"],
  ['speculation',      "add('script', { type: 'speculationrules', textContent: JSON.stringify({ prerender: [{ urls: [url] }], prefetch: [{ urls: [url] }] }) })"],
  ['media',            "add('video', { src: url, poster: url, autoplay: true, muted: true }); add('audio', { src: url, autoplay: true })"],
  ['WebSocket',        "new WebSocket(url.replace(/^http/, 'ws'))"],
  ['EventSource',      'new EventSource(url)'],
  ['beacon',           "navigator.sendBeacon(url, 'x')"],
  ['XMLHttpRequest',   "const x = new XMLHttpRequest(); x.open('GET', url); x.send()"],
  ['synchronous XHR',  "const x = new XMLHttpRequest(); x.open('GET', url, false); try { x.send() } catch {}"],
  ['workers',          "new Worker(URL.createObjectURL(new Blob(['fetch(' + JSON.stringify(url) + ', {mode:\"no-cors\"})'])))"],
  ['forms',            "const f = add('iframe', { name: 'f' + Math.random() }); const form = add('form', { action: url, method: 'POST', target: f.name }); form.submit()"],
  ['windows',          'open(url)'],
  ['CSS',              "add('style', { textContent: '@import \"' + url + '\"; body { background: url(\"' + url + '\") } @font-face { font-family: x; src: url(\"' + url + '\") } body { font-family: x }' })"],
  ['pings',            "add('a', { href: '#', ping: url }).click()"],
  ['SVG',              "add('div', { innerHTML: '<svg><image href=\"' + url + '\"/><use href=\"' + url + '#a\"/></svg>' })"],
  ['WebTransport',     "new WebTransport(url.replace(/^http:/, 'https:')).closed.catch(() => {})"],
]

/** A page with a part that the test answers (`holdPath`), and a script that knows `add`. */
function attack(script: string): string {
  return `<body><h1>Page</h1><img src=/late><script>
    const add = (name, properties) => {
      const { sandbox, ...rest } = properties
      const element = Object.assign(document.createElement(name), rest)
      if (sandbox) element.setAttribute('sandbox', sandbox)
      document.body.append(element)
      return element
    }
    ${script}
  </script>`
}

/** Every address of the corpus, as a page sees it. */
const corpus = () => [
  ...URLS.map(([, url]) => withPort(url)),
  ...LOCATIONS.map(withPort),
  ...ANSWERS.map((_, i) => world.url('/x', `answer-${i}.example.org`)),
]

test("13.7: from a page, loopback in every way, each of which reaches the page's own relay", async () => {
  const script = WAYS.map(([, body], i) => {
    const urls = [...LOOPBACK.map((url) => `${withPort(url)}?${i}`), world.url(`/way-${i}`)]
    return `for (const url of ${JSON.stringify(urls)}) try { ${body} } catch {}`
  })
  world.relay.on('/attack', page(attack(script.join('\n'))))
  const late = holdPath(world, '/late')
  const egress = world.egress()
  const taking = takeIn(world, { path: '/attack', limits: many, egress })
  const open = WAYS.map(([way], i) => [way, i] as const).filter(([way]) => !OFF.includes(way))
  const missing = () => open.filter(([, i]) => requestsFor(world, `/way-${i}`) === 0).map(([way]) => way)
  await eventually(() => expect(missing()).toEqual([])).finally(() =>
    console.log(
      countDenials(egress),
      missing(),
      WAYS.filter((_, i) => requestsFor(world, `/way-${i}`) === 0).map(([w]) => w),
    ),
  )
  late()
  expect((await taking).failure).toBeNull()
  expect(countDenials(egress)).toBeGreaterThan(150)
})

test('M8.3#3 13.7: from a page, the whole corpus by images and fetch', async () => {
  const script = `
    const image = (src) => new Promise((end) => Object.assign(new Image(), { onload: end, onerror: end, src }))
    const ended = ${JSON.stringify(corpus())}.flatMap((url) => [image(url), fetch(url, { mode: 'no-cors' }).catch(() => {})])
    Promise.all(ended).then(() => fetch('/report?ended'))`
  world.relay.on('/corpus', page(attack(script)))
  const late = holdPath(world, '/late')
  const egress = world.egress()
  const taking = takeIn(world, { path: '/corpus', limits: many, egress })
  await eventually(() => expect(requestsFor(world, '/report')).toBe(1))
  late()
  expect((await taking).failure).toBeNull()
  expect(countDenials(egress)).toBeGreaterThan(250)
})

// Each frame is a process or a share of one. The short form has one address of each kind; all of them may be too much memory.
const endsOfFrames = size({ small: [null], full: [null, 'memory', 'target_not_allowed', 'crashed'] })

test('M8.3#3 13.7: from a page, the corpus by frames', async () => {
  const oneOfEach = [...new Map(URLS.map(([kind, url]) => [kind, withPort(url)])).values()]
  const urls = size({ small: oneOfEach, full: corpus() })
  const script = `for (const src of ${JSON.stringify(urls)}) add('iframe', { src })`
  world.relay.on('/frames', page(attack(script))) // the page has loaded when all have ended
  holdPath(world, '/late')()
  const egress = world.egress()
  const { failure } = await takeIn(world, { path: '/frames', limits: many, egress })
  expect(endsOfFrames).toContain(failure?.reason ?? null)
  expect(countDenials(egress)).toBeGreaterThan(40)
})

test('13.7: from a page, parts that redirect to the corpus', async () => {
  const parts = LOCATIONS.map((location, i) => {
    world.relay.on(`/part-${i}`, redirect(withPort(location)))
    return `<img src="/part-${i}"><iframe src="/part-${i}?f"></iframe>`
  })
  world.relay.on('/parts', page(parts.join(''))) // the page has loaded when all have ended
  const egress = world.egress()
  // Among them is the page's own host on a port that is refused: not a reason to refuse the page.
  expect((await takeIn(world, { path: '/parts', limits: many, egress })).failure).toBeNull()
  expect(countDenials(egress)).toBeGreaterThan(30)
})

// biome-ignore format: a table
const LEADS: readonly (readonly [way: string, head: string, body: string])[] = [
  ['a redirect',       '',                         ''],
  ['meta refresh',     '',                         '<meta http-equiv=refresh content="0;url=URL">'],
  ['Refresh',          'refresh: 0;url=URL\r\n',   '<h1>x</h1>'],
  ['a script',         '',                         '<script>location = "URL"</script>'],
  ['a form',           '',                         '<form action="URL" method=post></form><script>document.forms[0].submit()</script>'],
  ['a link',           '',                         '<a href="URL">x</a><script>document.links[0].click()</script>'],
]
// biome-ignore format: a table
const ENDS: readonly (readonly [end: string, isLeftAlone: boolean])[] = [
  // where the page leads, whether Chromium ignores it and shows the page
  ['http://127.0.0.1:PORT/',             false],
  ['http://[::1]:PORT/',                 false],
  ['http://loopback.example.org:PORT/',  false],
  ['file:///etc/passwd',                 true],
  ['data:text/html,<h1>x</h1>',          true],
  ['view-source:http://127.0.0.1:PORT/', true],
  ['chrome://version',                   true],
]

/**
 * Every way to one address that is refused, and by redirect and script to each kind. Left out are the other pairs: the proxy
 * does not know the way, and Chromium's own refusal does not depend on it.
 */
const isInShortForm = (way: string, end: string) =>
  end === 'http://127.0.0.1:PORT/' ||
  (way === 'a script' && end === 'http://loopback.example.org:PORT/') ||
  (way === 'a redirect' && end.startsWith('file:'))

/** Ways that lead away while the page still loads; a refresh waits until it has loaded. */
const LEADS_WHILE_LOADING = ['a script', 'a form', 'a link']

for (const [way, head, body] of LEADS) {
  for (const [end, isLeftAlone] of ENDS) {
    if (!isInShortForm(way, end) && size({ small: true, full: false })) continue
    test(`M8.3#3: the page leads to ${end} by ${way}`, async () => {
      const url = withPort(end)
      const fill = (text: string) => text.replaceAll('URL', url)
      // A page that has not loaded when it leads away needs no time to settle, however busy the machine is.
      const isHeld = !isLeftAlone && LEADS_WHILE_LOADING.includes(way)
      if (isHeld) holdPath(world, '/late')
      const html = `${isHeld ? '<img src=/late>' : ''}${fill(body)}`
      const length = Buffer.byteLength(html)
      const response = `HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: ${length}\r\n${fill(head)}\r\n${html}`
      world.relay.on('/leads', way === 'a redirect' ? redirect(url) : reply(response))
      // A form to a scheme that Chromium refuses leaves the page loading for ever.
      const isStuck = isLeftAlone && way === 'a form'
      let reason: string | null
      let settleMs = isLeftAlone ? 1_000 : 250 // until the page has led away, which a busy machine does late
      do {
        const limits = { settleMs, ...(isStuck && { ms: 8_000 }) }
        const { failure } = await takeIn(world, { path: '/leads', limits })
        reason = failure?.reason ?? null
        settleMs *= 8
      } while ((reason === null || reason === 'crashed') && !isLeftAlone && settleMs < 60_000)
      const refused = isStuck
        ? ['timeout']
        : isLeftAlone && way === 'a redirect'
          ? ['unreachable']
          : ['target_not_allowed']
      expect(isLeftAlone && way !== 'a redirect' ? [null, ...refused] : refused).toContain(reason)
    })
  }
}

test('13.7: rebinding: a name that turned to loopback after the page was loaded', async () => {
  world.dns.setRecords('rebind.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const again = `for (let i = 0; i < 20; i++) fetch('/secret?' + i).then(() => new Image().src = '${world.url('/report?stolen')}')`
  world.relay.on('/rebound', page(`<h1>x</h1><script>setTimeout(() => { ${again} }, 100)</script>`))
  const egress = world.egress()
  const limits = { ...many, settleMs: 1_000 }
  const { failure } = await takeIn(world, { path: '/rebound', host: 'rebind.example.org', limits, egress })
  expect(failure).toBeNull()
  expect(countDenials(egress)).toBeGreaterThan(0)
  expect(world.relay.requests.filter((head) => head.includes('/secret'))).toEqual([])
})

test('M8.3#3: WebRTC sends no datagram and opens no connection beside the proxy', async () => {
  const { port } = udp.address()
  const servers = [
    `stun:127.0.0.1:${port}`,
    `stun:localhost:${port}`,
    `turn:127.0.0.1:${port}?transport=udp`,
  ].concat([`turn:127.0.0.1:${world.port}?transport=tcp`, `turns:127.0.0.1:${world.port}?transport=tcp`])
  const script = `
    const one = new RTCPeerConnection({ iceServers: ${JSON.stringify(servers)}.map((urls) => ({ urls, username: 'a', credential: 'b' })) })
    one.createDataChannel('x')
    one.onicecandidate = ({ candidate }) => fetch('/report?candidate=' + encodeURIComponent(candidate?.candidate ?? ''))
    one.createOffer().then((offer) => one.setLocalDescription(offer)).then(() => {
      const sdp = 'v=0\\r\\no=- 1 1 IN IP4 127.0.0.1\\r\\ns=-\\r\\nt=0 0\\r\\n'
      one.addIceCandidate({ candidate: 'candidate:1 1 udp 1 127.0.0.1 ${port} typ host', sdpMid: '0' }).catch(() => {})
    })`
  world.relay.requests.length = 0
  world.relay.on('/webrtc', page(`<h1>x</h1><script>${script}</script>`))
  const { failure } = await takeIn(world, { path: '/webrtc', limits: { settleMs: 4_000 } })
  expect(failure).toBeNull()
  const candidates = world.relay.requests.filter((head) => /candidate=candidate/.test(head))
  expect(candidates).toEqual([]) // not even this host's addresses
})

test('the tripwires would tell: under a policy that allows 127.0.0.1 such a page reaches it', async () => {
  const other = await startWorld() // with tripwires of its own
  const env = { EGRESS_TEST_ALLOW: '127.0.0.0/8', PROBE_PORTS: String(other.port) }
  other.relay.on(
    '/attack',
    page(attack(`for (const url of ['http://127.0.0.1:${other.port}/x']) { ${WAYS[0][1]} }`)),
  )
  holdPath(other, '/late')()
  const { failure } = await takeIn(other, { path: '/attack', egress: other.egress({}, env) })
  expect(failure).toBeNull()
  expect(other.tripped()).toBeGreaterThan(0)
  await other.close()
})
