/** One picture by a real Chromium: what it shows, what pages may not do, and that nothing of it is left behind. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { ScreenshotFailure } from '../../../monitor/screenshots/failure.ts'
import { SCREENSHOT_LIMITS } from '../../../monitor/screenshots/limits.ts'
import { removeLeftovers } from '../../../monitor/screenshots/run-folder.ts'
import { readWebpSize } from '../../../monitor/screenshots/webp.ts'
import { makeCertificates } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { reply, startRaw } from '../egress/raw-server.ts'
import { startWorld, type World } from '../egress/setup.ts'
import { expectNothingLeft, isRoot, listFolders, listProcesses, OWNER, page, takeIn } from './setup.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
})
afterEach(async () => {
  await expectNothingLeft()
  expect(world.tripped()).toBe(0)
})
afterAll(() => world.close())

/** Serves a page whose script reports to its relay; returns what it reported, once the picture was taken. */
async function report(
  script: string,
  options: Partial<Parameters<typeof takeIn>[1]> = {},
): Promise<string[]> {
  world.relay.requests.length = 0
  world.relay.on('/report', reply('HTTP/1.1 204 No Content\r\n\r\n'))
  world.relay.on(
    '/script',
    page(`<script>
    const report = (text) => fetch('/report?' + encodeURIComponent(text));
    ${script}
  </script>`),
  )
  const { failure } = await takeIn(world, { path: '/script', ...options })
  expect(failure).toBeNull()
  return reported()
}

function reported(requests = world.relay.requests): string[] {
  return requests
    .filter((head) => head.startsWith('GET /report?'))
    .map((head) => decodeURIComponent(head.split(' ')[1].slice('/report?'.length)))
}

const requestsFor = (path: string) =>
  world.relay.requests.filter((head) => head.split(' ')[1].split('?')[0] === path).length

test('M8.3#4: a picture is WebP of 1280 x 800 in at most 400 KiB, 2 s after the page has loaded', async () => {
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
  world.relay.on(
    '/happy',
    page(`<h1>Hello</h1><script>addEventListener('load', () => fetch('/loaded'))</script>`),
  )
  const { image, failure } = await takeIn(world, { path: '/happy', limits: { settleMs: 2_000 } })
  expect(failure).toBeNull()
  expect(readWebpSize(image!)).toEqual({ width: 1_280, height: 800 })
  expect(image!.length).toBeLessThan(409_600)
  expect(performance.now() - loadedAtMs).toBeGreaterThan(1_500)
})

test('M8.3#4: the page sees 1280 x 800, a light scheme and no environment of ours', async () => {
  const lines = await report(`
    report([innerWidth, innerHeight, devicePixelRatio, matchMedia('(prefers-color-scheme: light)').matches].join())
  `)
  expect(lines).toEqual(['1280,800,1,true'])
})

test('M8.3#4: a picture over its size is taken again at a lower quality, and not kept if none is low enough', async () => {
  const noise = `<canvas width=1280 height=800></canvas><style>body{margin:0}</style><script>
    const c = document.querySelector('canvas').getContext('2d'), d = c.createImageData(1280, 800)
    let seed = 1
    for (let i = 0; i < d.data.length; i++) d.data[i] = i % 4 === 3 ? 255 : (seed = seed * 16807 % 2147483647) & 255
    c.putImageData(d, 0, 0)</script>`
  world.relay.on('/noise', page(noise))
  const first = await takeIn(world, { path: '/noise', limits: { imageBytesMax: 2 ** 30 } })
  const size = first.image!.length
  const lower = await takeIn(world, { path: '/noise', limits: { imageBytesMax: size - 1 } })
  expect(lower.image!.length).toBeLessThan(size)
  const none = await takeIn(world, { path: '/noise', limits: { imageBytesMax: 1_000 } })
  expect(none.failure?.reason).toBe('image_too_large')
})

test('a page that waits for one of its parts is shown without it; one without a document is a timeout', async () => {
  world.relay.on('/never', () => {})
  world.relay.on('/waits', page('<h1>Shown</h1><img src=/never>'))
  const { image } = await takeIn(world, { path: '/waits', limits: { ms: 20_000 } })
  expect(readWebpSize(image!)).toEqual({ width: 1_280, height: 800 })
  const { failure } = await takeIn(world, { path: '/never', limits: { ms: 6_000 } })
  expect(failure?.reason).toBe('timeout')
})

// biome-ignore format: a table
const responses = [
  // what, response → reason
  ['a status of 404',         'HTTP/1.1 404 No\r\ncontent-length: 1\r\n\r\nx',      'http_error'],
  ['a status of 503',         'HTTP/1.1 503 No\r\ncontent-length: 1\r\n\r\nx',      'http_error'],
  ['bytes that are not HTTP', 'SSH-2.0-OpenSSH_9.2\r\n',                            'http_error'], // 502 of the proxy
  ['a download',              'HTTP/1.1 200 OK\r\ncontent-disposition: attachment; filename=x.exe\r\ncontent-length: 1\r\n\r\nx', 'unreachable'],
] as const
for (const [what, response, reason] of responses) {
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
      location = '/file'
    })().catch((error) => report('failed ' + error))`
  relay.on('/secure', page(`<body><script>${script}</script>`))
  relay.on('/report', reply('HTTP/1.1 204 No Content\r\n\r\n'))
  relay.on('/file', reply('HTTP/1.1 200 OK\r\ncontent-disposition: attachment\r\ncontent-length: 1\r\n\r\nx'))
  const { failure } = await takeIn(world, {
    ...{ path: '', url: `https://relay.example.org:${relay.port}/secure`, acceptsAnyCertificate: true },
    egress: world.egress({}, { PROBE_PORTS: String(relay.port) }),
    limits: { settleMs: 3_000 },
  })
  expect(failure).toBeNull()
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
  await report(`for (let i = 0; i < 300; i++) new Image().src = '/counted?' + i`, {
    limits: { requests: 60, settleMs: 1_000 },
  })
  expect(requestsFor('/counted')).toBeGreaterThan(40)
  expect(requestsFor('/counted')).toBeLessThan(60)
})

// biome-ignore format: a table
const bombs = [
  // what, page, limits, reasons; null = a picture
  ['an endless loop',          '<script>for(;;);</script>',                                { ms: 10_000 }, ['timeout']],
  ['endless alerts',           '<script>for(;;) alert(1)</script>',                        { ms: 10_000 }, ['timeout']],
  ['endless windows',          '<script>for(let i=0;i<5000;i++) open("/bomb?"+i)</script>', {},            [null]],
  ['endless memory',           '<script>const all=[];for(;;)all.push(new Uint8Array(1e8).fill(1))</script>', { memoryBytesMax: 700 * 2 ** 20 }, ['memory', 'crashed']],
  ['endless heap',             '<script>const all=[];for(;;)all.push({a:[1,2,3]})</script>', { ms: 60_000 }, ['memory', 'crashed', 'timeout']],
  ['huge canvases',            '<script>for(let i=0;i<50;i++){const c=document.createElement("canvas");c.width=c.height=16000;document.body.append(c);c.getContext("2d").fillRect(0,0,16000,16000)}</script>', { ms: 30_000 }, [null, 'memory', 'crashed', 'timeout']],
  ['endless frames',           '<script>setInterval(()=>{for(let i=0;i<50;i++)document.body.append(Object.assign(document.createElement("iframe"),{src:"/bomb?"+Math.random()}))})</script>', { ms: 15_000 }, [null, 'memory', 'crashed', 'timeout']],
  ['endless navigation',       '<script>setTimeout(()=>location="/bomb?"+Math.random())</script>', { ms: 15_000 }, [null, 'unreachable', 'timeout']],
] as const
for (const [what, html, limits, reasons] of bombs) {
  test(`M8.3#3: ${what}: ${reasons.map((reason) => reason ?? 'a picture').join(' or ')}`, async () => {
    world.relay.requests.length = 0
    world.relay.on('/bomb', page(`<h1>Bomb</h1>${html}`))
    const { failure } = await takeIn(world, { path: '/bomb', limits })
    expect(reasons).toContain(failure?.reason ?? null)
    expect(requestsFor('/bomb')).toBeLessThanOrEqual(60)
  })
}

test('M8.3#3: a document without an end is cut off at its bytes', async () => {
  world.relay.on('/endless', (socket) => {
    socket.write('HTTP/1.1 200 OK\r\ncontent-type: text/html\r\n\r\n<h1>x</h1>')
    const more = () => {
      while (!socket.destroyed && socket.write('<p>x'.repeat(4_096)));
    }
    socket.on('drain', more)
    more()
  })
  const { failure } = await takeIn(world, { path: '/endless', limits: { bytesMax: 1_048_576 } })
  expect(failure?.reason).toBe('too_large')
})

// biome-ignore format: a table
const victims = [
  // which process of the browser is killed → reason
  ['the browser',   (line: string) => !line.includes('--type=') && line.includes('--remote-debugging-pipe')],
  ['the renderers', (line: string) => line.includes('--type=renderer')],
] as const
for (const [what, isVictim] of victims) {
  test(`${what} killed: crashed`, async () => {
    world.relay.requests.length = 0
    world.relay.on('/never', () => {})
    world.relay.on('/hangs', page('<img src=/never>'))
    const taking = takeIn(world, { path: '/hangs' })
    await eventually(() => expect(requestsFor('/never')).toBe(1))
    // Child processes are found by their group: their command lines do not name the profile.
    const [browser] = await findGroup()
    for (const [pid, line] of browser.members) if (isVictim(line)) process.kill(pid, 'SIGKILL')
    expect((await taking).failure?.reason).toBe('crashed')
  })
}

test('given up, it ends at once with the reason of the signal', async () => {
  world.relay.requests.length = 0
  world.relay.on('/never', () => {})
  const closing = new AbortController()
  const taking = takeIn(world, { path: '/never', signal: closing.signal })
  await eventually(() => expect(requestsFor('/never')).toBe(1))
  closing.abort(new ScreenshotFailure('closed', 'shutting down'))
  expect((await taking).failure?.reason).toBe('closed')
  const before = await takeIn(world, { path: '/never', signal: closing.signal })
  expect(before.failure?.reason).toBe('closed')
})

test('a browser that does not start, one that is missing, and one that is silent', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fake-browser-'))
  const silent = join(folder, 'silent')
  writeFileSync(silent, '#!/bin/sh\nwhile :; do sleep 1; done\n')
  writeFileSync(join(folder, 'fails'), '#!/bin/sh\nexit 1\n')
  for (const name of ['silent', 'fails']) chmodSync(join(folder, name), 0o755)
  const take = (executable: string) => takeIn(world, { path: '/', executable, limits: { ms: 3_000 } })
  expect((await take(join(folder, 'fails'))).failure?.reason).toBe('browser')
  expect((await take('/nonexistent/chromium')).failure?.reason).toBe('browser')
  expect((await take(silent)).failure?.reason).toBe('timeout')
  rmSync(folder, { recursive: true })
})

test('two pictures at once, of two owners, do not disturb each other', async () => {
  world.relay.on('/one', page('one'))
  world.relay.on('/two', page('two'))
  const [one, two] = await Promise.all([
    takeIn(world, { path: '/one' }),
    takeIn(world, { path: '/two', owner: `${OWNER}b` }),
  ])
  expect([one.failure, two.failure]).toEqual([null, null])
  await expectNothingLeft(`${OWNER}b`)
})

test('M8.3#2: after kill -9 of the service its browser ends, and the next start removes the profile', async () => {
  const owner = `${OWNER}-killed`
  world.relay.requests.length = 0
  world.relay.on('/never', () => {})
  world.relay.on('/hangs', page('<img src=/never>'))
  const child = spawnTaker({ owner, path: '/hangs', hasSandbox: !isRoot })
  await eventually(() => expect(requestsFor('/never')).toBe(1))
  expect(await listFolders(owner)).toHaveLength(1)
  child.process.kill('SIGKILL')
  await once(child.process, 'exit')
  expect(await removeLeftovers(owner)).toBe(1)
  await expectNothingLeft(owner)
  expect(await removeLeftovers(owner)).toBe(0)
})

test('M8.3#2: without privileges the browser runs in its sandbox, or not at all', async (context) => {
  if (isRoot && !canNobodyRead()) context.skip() // the repository is in a private folder
  const owner = `${OWNER}-sandbox`
  world.relay.requests.length = 0
  let answer = () => {}
  world.relay.on('/late', (socket) => {
    answer = () => socket.end('HTTP/1.1 204 No Content\r\n\r\n')
  })
  world.relay.on('/sandboxed', page('<h1>x</h1><img src=/late>'))
  const child = spawnTaker({ owner, path: '/sandboxed', hasSandbox: true, isUnprivileged: true })
  const ended = once(child.process, 'close')
  await Promise.race([ended, eventually(() => expect(requestsFor('/late')).toBe(1))])
  if (requestsFor('/late') === 1) {
    const [browser] = await findGroup(owner)
    const renderers = [...browser.members].filter(([, line]) => line.includes('--type=renderer'))
    expect(renderers.length).toBeGreaterThan(0)
    for (const [pid, line] of renderers) {
      const status = readFileSync(`/proc/${pid}/status`, 'latin1')
      expect(status).toMatch(/^Seccomp:\t2$/m) // a filter of system calls
      expect(status).toMatch(/^NSpid:(\t\d+){2,}$/m) // a name space of its own
      expect(line).not.toContain('--no-sandbox')
    }
    answer()
  }
  await ended
  expect(child.output()).toMatch(/^(picture|sandbox: no usable sandbox)\n$/)
  await expectNothingLeft(owner)
})

interface Group {
  members: Map<number, string> // process id → command line
}

/** The process group of the owner's browser. */
async function findGroup(owner = OWNER): Promise<Group[]> {
  const browsers = [...(await listProcesses(owner))].filter(([, line]) =>
    line.includes('--remote-debugging-pipe'),
  )
  return browsers.map(([browserPid]) => {
    const members = new Map<number, string>()
    for (const pid of listPids()) {
      const [stat, line] = ['stat', 'cmdline'].map((name) => readProc(pid, name))
      const group = Number(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[2])
      if (group === browserPid) members.set(pid, line.replaceAll('\0', ' '))
    }
    return { members }
  })
}

function listPids(): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
}

function readProc(pid: number, name: string): string {
  try {
    return readFileSync(`/proc/${pid}/${name}`, 'latin1')
  } catch {
    return '' // it has ended
  }
}

const TAKER = fileURLToPath(new URL('take-alone.ts', import.meta.url))
const NOBODY = 65_534

/** A process that takes one picture and prints `picture`, or the failure. */
function spawnTaker({
  owner,
  path,
  hasSandbox,
  isUnprivileged = false,
}: {
  owner: string
  path: string
  hasSandbox: boolean
  isUnprivileged?: boolean
}) {
  const args = [world.url(path), world.dns.server, String(world.port), owner, String(hasSandbox)]
  const user = isUnprivileged && isRoot ? { uid: NOBODY, gid: NOBODY } : {}
  const child = spawn(process.execPath, [TAKER, ...args], {
    ...{ cwd: '/', stdio: ['ignore', 'pipe', 'inherit'], ...user },
    env: { PATH: process.env.PATH, HOME: '/nonexistent', NODE_ENV: 'test' },
  })
  let output = ''
  child.stdout!.on('data', (chunk) => {
    output += chunk
  })
  return { process: child, output: () => output }
}

function canNobodyRead(): boolean {
  const { status } = spawnSync(process.execPath, ['--check', TAKER], { uid: NOBODY, gid: NOBODY, cwd: '/' })
  return status === 0
}
