/** How the browser ends: by limits, hostile pages and signals. Nothing of it is left behind, whichever way. */
import { spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { ScreenshotFailure, type ScreenshotReason } from '../../../monitor/screenshots/failure.ts'
import type { ScreenshotLimits } from '../../../monitor/screenshots/limits.ts'
import { removeLeftovers } from '../../../monitor/screenshots/run-folder.ts'
import { eventually } from '../../helpers/eventually.ts'
import { size } from '../../helpers/size.ts'
import { reply } from '../egress/raw-server.ts'
import { startWorld, type World } from '../egress/setup.ts'
import {
  expectNothingLeft,
  isRoot,
  listFolders,
  listProcesses,
  OWNER,
  page,
  requestsFor,
  takeIn,
} from './setup.ts'

let world: World
beforeAll(async () => {
  world = await startWorld()
  world.relay.on('/never', () => {})
  world.relay.on('/hangs', page('<img src=/never>'))
})
beforeEach(() => {
  world.relay.requests.length = 0
})
afterEach(async () => {
  await expectNothingLeft()
  expect(world.tripped()).toBe(0)
})
afterAll(() => world.close())

test('M8.3#3: without a document in time, or with a browser that is silent: timeout', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-fake-browser-'))
  const silent = join(folder, 'silent')
  const fails = join(folder, 'fails')
  writeFileSync(silent, '#!/bin/sh\nwhile :; do sleep 1; done\n')
  writeFileSync(fails, '#!/bin/sh\nexit 1\n')
  for (const path of [silent, fails]) chmodSync(path, 0o755)
  const executables = [undefined, silent, fails, '/nonexistent/chromium']
  const all = await Promise.all(
    executables.map((executable) =>
      takeIn(world, { path: '/never', limits: { ms: 4_000 }, ...(executable && { executable }) }),
    ),
  )
  expect(all.map(({ failure }) => failure?.reason)).toEqual(['timeout', 'timeout', 'browser', 'browser'])
  rmSync(folder, { recursive: true })
})

test('M8.3#3: endless loops and endless alerts do not keep it from ending', async () => {
  const script = (loop: string) => `<script>
    const request = new XMLHttpRequest()
    request.open('GET', '/armed', false)
    request.send()
    ${loop}
  </script>`
  world.relay.on('/armed', reply('HTTP/1.1 204 No Content\r\n\r\n'))
  world.relay.on('/loop', page(script('for (;;);')))
  world.relay.on('/alerts', page(script('for (;;) alert(1)')))
  const closing = new AbortController()
  const taking = ['/loop', '/alerts'].map((path) => takeIn(world, { path, signal: closing.signal }))
  await eventually(() => expect(requestsFor(world, '/armed')).toBe(2))
  closing.abort(new ScreenshotFailure('closed', 'by the test'))
  for (const { failure } of await Promise.all(taking)) expect(failure?.reason).toBe('closed')
})

test('M8.3#3: endless navigation ends at the number of requests', async () => {
  const next = 'location = "/bomb?" + Math.random()'
  world.relay.on('/bomb', page(`<h1>Bomb</h1><img src=/never><script>${next}</script>`))
  const { failure } = await takeIn(world, { path: '/bomb', limits: { requests: 10 } })
  expect([failure?.reason, failure?.detail]).toEqual(['too_large', 'over 10 requests'])
  expect(requestsFor(world, '/bomb')).toBeLessThanOrEqual(10)
})

type Bomb = [
  what: string,
  html: string,
  limits: Partial<ScreenshotLimits>,
  reasons: (ScreenshotReason | null)[],
]

/*
 * The short form leaves out bombs of memory that is not of one script alone, and those of windows, frames and navigation
 * up to the limits of production: they prove the same limits and take a minute of both cores.
 */
// biome-ignore format: a table
const shortBombs: Bomb[] = [
  // what, page, limits, reasons; null = a picture
  ['windows',          '<script>for(let i=0;i<500;i++) open("/bomb?"+i)</script>', {}, [null]],
  ['memory',           '<script>const all=[];for(;;)all.push(new Uint8Array(1e7).fill(1))</script>', { memoryBytesMax: 500 * 2 ** 20 }, ['memory', 'crashed']],
]
// biome-ignore format: a table
const fullBombs: Bomb[] = [
  ['loop',             '<script>for(;;);</script>',                                 { ms: 10_000 }, ['timeout']],
  ['alerts',           '<script>for(;;) alert(1)</script>',                         { ms: 10_000 }, ['timeout']],
  ['windows (5,000)',  '<script>for(let i=0;i<5000;i++) open("/bomb?"+i)</script>', {},             [null]],
  ['memory (default)', '<script>const all=[];for(;;)all.push(new Uint8Array(1e8).fill(1))</script>', {}, ['memory', 'crashed']],
  ['heap',             '<script>const all=[];for(;;)all.push({a:[1,2,3]})</script>', { ms: 60_000 }, ['memory', 'crashed', 'timeout']],
  ['canvases',         '<script>for(let i=0;i<50;i++){const c=document.createElement("canvas");c.width=c.height=16000;document.body.append(c);c.getContext("2d").fillRect(0,0,16000,16000)}</script>', { ms: 30_000 }, [null, 'memory', 'crashed', 'timeout']],
  ['frames',           '<script>setInterval(()=>{for(let i=0;i<50;i++)document.body.append(Object.assign(document.createElement("iframe"),{src:"/bomb?"+Math.random()}))})</script>', { ms: 15_000, settleMs: 2_000 }, [null, 'memory', 'crashed', 'timeout']],
  ['navigation',       '<script>setTimeout(()=>location="/bomb?"+Math.random())</script>', { ms: 15_000, settleMs: 2_000 }, [null, 'too_large', 'timeout']],
]
for (const [what, html, limits, reasons] of size({
  small: shortBombs,
  full: [...shortBombs, ...fullBombs],
})) {
  test(`M8.3#3: endless ${what}: ${reasons.map((reason) => reason ?? 'a picture').join(' or ')}`, async () => {
    world.relay.on('/bomb', page(`<h1>Bomb</h1>${html}`))
    const { failure } = await takeIn(world, { path: '/bomb', limits })
    expect(reasons).toContain(failure?.reason ?? null)
    expect(requestsFor(world, '/bomb')).toBeLessThanOrEqual(60)
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
    const taking = takeIn(world, { path: '/hangs' })
    await eventually(() => expect(requestsFor(world, '/never')).toBe(1))
    // Child processes are found by their group: their command lines do not name the profile.
    const [browser] = await findGroup()
    for (const [pid, line] of browser.members) if (isVictim(line)) process.kill(pid, 'SIGKILL')
    expect((await taking).failure?.reason).toBe('crashed')
  })
}

test('given up, it ends at once with the reason of the signal', async () => {
  const closing = new AbortController()
  const taking = takeIn(world, { path: '/never', signal: closing.signal })
  await eventually(() => expect(requestsFor(world, '/never')).toBe(1))
  closing.abort(new ScreenshotFailure('closed', 'shutting down'))
  expect((await taking).failure?.reason).toBe('closed')
  const before = await takeIn(world, { path: '/never', signal: closing.signal })
  expect(before.failure?.reason).toBe('closed')
})

test('M8.3#2: after kill -9 of the service its browser ends, and the next start removes the profile', async () => {
  const owner = `${OWNER}-killed`
  const child = spawnTaker({ owner, path: '/hangs', hasSandbox: !isRoot })
  await eventually(() => expect(requestsFor(world, '/never')).toBe(1))
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
  let answer = () => {}
  world.relay.on('/late', (socket) => {
    answer = () => socket.end('HTTP/1.1 204 No Content\r\n\r\n')
  })
  world.relay.on('/sandboxed', page('<h1>x</h1><img src=/late>'))
  const child = spawnTaker({ owner, path: '/sandboxed', hasSandbox: true, isUnprivileged: true })
  const ended = once(child.process, 'close')
  await Promise.race([ended, eventually(() => expect(requestsFor(world, '/late')).toBe(1))])
  if (requestsFor(world, '/late') === 1) {
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
