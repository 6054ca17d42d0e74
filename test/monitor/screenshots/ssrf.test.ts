/**
 * The prober's corpus (spec 13.7) from within a page: a hostile page in a real Chromium tries to reach what the proxy must not
 * reach, and what could bypass the proxy. The tripwires on 127.0.0.1 and ::1, TCP and UDP, must see nobody. That they would
 * is shown by the same pages under a policy that allows 127.0.0.1.
 */
import { createSocket, type Socket } from 'node:dgram'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ANSWERS, LOCATIONS, URLS } from '../egress/corpus.ts'
import { redirect, reply } from '../egress/raw-server.ts'
import { startWorld, type World } from '../egress/setup.ts'
import { expectNothingLeft, page, takeIn } from './setup.ts'

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
afterEach(async () => {
  expect(world.tripped()).toBe(0)
  expect(datagrams).toBe(0)
  await expectNothingLeft()
})
afterAll(async () => {
  udp.close()
  await world.close()
})

const withPort = (text: string) => text.replaceAll('PORT', String(world.port))
const many = { requests: 100_000, settleMs: 3_000 } // so that no bound but the policy refuses anything

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

/** Some 200 frames may be too much memory, and one may lead the page away; the tripwires are what counts. */
const END_OF_CORPUS = [null, 'memory', 'target_not_allowed', 'crashed']

function attack(urls: readonly string[], script: string): string {
  return `<body><h1>Page</h1><script>
    const add = (name, properties) => {
      const { sandbox, ...rest } = properties
      const element = Object.assign(document.createElement(name), rest)
      if (sandbox) element.setAttribute('sandbox', sandbox)
      document.body.append(element)
      return element
    }
    for (const url of ${JSON.stringify(urls)}) try { ${script} } catch {}
  </script>`
}

for (const [way, script] of WAYS) {
  test(`13.7: from a page, loopback by ${way}`, async () => {
    world.relay.on('/attack', page(attack(LOOPBACK.map(withPort), script)))
    const { failure } = await takeIn(world, { path: '/attack', limits: { ...many, settleMs: 1_000 } })
    expect(failure).toBeNull()
  })
}

for (const [way, script] of WAYS.filter(([name]) => ['images', 'fetch', 'frames'].includes(name))) {
  test(`M8.3#3 13.7: from a page, the whole corpus by ${way}`, async () => {
    const urls = [
      ...URLS.map(([, url]) => withPort(url)),
      ...LOCATIONS.map(withPort),
      ...ANSWERS.map((_, i) => world.url('/x', `answer-${i}.example.org`)),
    ]
    world.relay.on('/corpus', page(attack(urls, script)))
    const { failure } = await takeIn(world, { path: '/corpus', limits: many })
    expect(END_OF_CORPUS).toContain(failure?.reason ?? null)
  })
}

test('13.7: from a page, parts that redirect to the corpus', async () => {
  const parts = LOCATIONS.map((location, i) => {
    world.relay.on(`/part-${i}`, redirect(withPort(location)))
    return `<img src="/part-${i}"><iframe src="/part-${i}?f"></iframe>`
  })
  world.relay.on('/parts', page(parts.join('')))
  const { failure } = await takeIn(world, { path: '/parts', limits: many })
  expect(END_OF_CORPUS).toContain(failure?.reason ?? null)
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
for (const [way, head, body] of LEADS) {
  for (const [end, isLeftAlone] of ENDS) {
    test(`M8.3#3: the page leads to ${end} by ${way}`, async () => {
      const url = withPort(end)
      const fill = (text: string) => text.replaceAll('URL', url)
      const html = fill(body)
      const length = Buffer.byteLength(html)
      const response = `HTTP/1.1 200 OK\r\ncontent-type: text/html\r\ncontent-length: ${length}\r\n${fill(head)}\r\n${html}`
      world.relay.on('/leads', way === 'a redirect' ? redirect(url) : reply(response))
      // A form to a scheme that Chromium refuses leaves the page loading for ever.
      const isStuck = isLeftAlone && way === 'a form'
      const limits = { settleMs: 1_000, ...(isStuck && { ms: 8_000 }) }
      const { failure } = await takeIn(world, { path: '/leads', limits })
      const refused = isStuck
        ? ['timeout']
        : isLeftAlone && way === 'a redirect'
          ? ['unreachable']
          : ['target_not_allowed']
      expect(isLeftAlone && way !== 'a redirect' ? [null, ...refused] : refused).toContain(
        failure?.reason ?? null,
      )
    })
  }
}

test('13.7: rebinding: a name that turned to loopback after the page was loaded', async () => {
  world.dns.setRecords('rebind.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])
  const again = `for (let i = 0; i < 20; i++) fetch('/secret?' + i).then(() => new Image().src = '${world.url('/report?stolen')}')`
  world.relay.on('/rebound', page(`<h1>x</h1><script>setTimeout(() => { ${again} }, 100)</script>`))
  await takeIn(world, { path: '/rebound', host: 'rebind.example.org', limits: many })
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

test('the tripwires would tell: under a policy that allows 127.0.0.1 these pages reach it', async () => {
  const other = await startWorld() // with tripwires of its own
  const env = { EGRESS_TEST_ALLOW: '127.0.0.0/8', PROBE_PORTS: String(other.port) }
  for (const [way, script] of WAYS.filter(([name]) =>
    ['images', 'fetch', 'frames', 'WebSocket'].includes(name),
  )) {
    const before = other.tripped()
    other.relay.on('/attack', page(attack([`http://127.0.0.1:${other.port}/x`], script)))
    await takeIn(other, { path: '/attack', egress: other.egress({}, env) })
    expect([way, other.tripped() > before]).toEqual([way, true])
  }
  await other.close()
})
