/** `npm run demo` as a process: what its pages promise, its progress, its end at every stage. */
import { type ChildProcess, spawn, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync, readFileSync, readlinkSync } from 'node:fs'
import { createServer } from 'node:net'
import { dirname, join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { DEMO_SITES } from '../../../scripts/commands/demo/sites.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const SOURCE = join(import.meta.dirname, '../../../scripts/commands/demo.ts')
/** Compiled by helpers/build.ts: its threads and processes start in two thirds of the time. */
const DEMO = join(dirname(process.env.SLUICE_TEST_SCRIPT!), 'commands/demo.js')
const WAIT_MS_MAX = 90_000
const UP = /The monitor is up after [\d.]+ s.*?(http:\/\/127\.0\.0\.1:\d+)\//s
const OPEN_STEPS = new Set(['pending', 'running'])
const LISTENING = '0A' // state in /proc/net/tcp

interface RunningDemo {
  child: ChildProcess
  folder: string // its TMPDIR
  output: () => string
  exited: Promise<number | null> // with its output closed, so its children have ended as well
}

interface DetectionState {
  status: string
  version: number
  steps: { status: string }[]
}

/** In a process group of its own, with the monitor and the agent. */
function startDemo(...args: string[]): RunningDemo {
  const folder = makeTemporaryFolder()
  const child = spawn(process.execPath, ['--disable-warning=ExperimentalWarning', DEMO, ...args], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true,
    env: { ...process.env, TMPDIR: folder },
  })
  let output = ''
  for (const stream of [child.stdout!, child.stderr!])
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  const exited = once(child, 'close').then(([code]) => code as number | null)
  return { child, folder, output: () => output, exited }
}

/** Process ids of its group. */
function listGroup({ child }: RunningDemo): number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => readStat(pid)?.group === child.pid)
    .map(Number)
}

function readStat(pid: string): { group: number } | null {
  try {
    const [, , group] = readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1].split(' ')
    return { group: Number(group) }
  } catch {
    return null // it has ended
  }
}

function killGroup({ child }: RunningDemo): void {
  try {
    process.kill(-child.pid!, 'SIGKILL')
  } catch {} // the group has ended
}

/** Hexadecimal addresses of all sockets that these processes listen on. */
function listListenAddresses(pids: readonly number[]): string[] {
  const inodes = new Set(pids.flatMap((pid) => listSocketInodes(pid)))
  return ['tcp', 'tcp6'].flatMap((name) =>
    readFileSync(`/proc/net/${name}`, 'utf8')
      .split('\n')
      .slice(1)
      .map((line) => line.trim().split(/ +/))
      .filter((cells) => cells[3] === LISTENING && inodes.has(cells[9]))
      .map((cells) => cells[1].split(':')[0]),
  )
}

function listSocketInodes(pid: number): string[] {
  return readdirSync(`/proc/${pid}/fd`).flatMap((fd) => {
    try {
      return /^socket:\[(\d+)\]$/.exec(readlinkSync(`/proc/${pid}/fd/${fd}`))?.[1] ?? []
    } catch {
      return [] // closed meanwhile
    }
  })
}

describe('8.1: the demo', () => {
  let demo: RunningDemo
  let base = ''
  let ids: string[] // of the detections: the one that runs, the one that is done
  let watched: Promise<DetectionState[]>

  beforeAll(async () => {
    demo = startDemo('--addr', '127.0.0.1:0')
    await eventually(() => expect(demo.output()).toMatch(UP), WAIT_MS_MAX)
    base = UP.exec(demo.output())![1]
    ids = [...demo.output().matchAll(/\/detections\/([\w-]+)/g)].map(([, id]) => id)
    watched = watchDetection(ids[0])
    watched.catch(() => {}) // its test reports it
  })
  afterAll(() => killGroup(demo))

  // biome-ignore lint/suspicious/noExplicitAny: what the tests expect
  const get = async (path: string): Promise<any> => {
    const response = await fetch(`${base}/api/v1${path}`)
    expect(response.status, path).toBe(200)
    return response.json()
  }
  /** All states from now on, each once. */
  const watchDetection = async (id: string): Promise<DetectionState[]> => {
    const states: DetectionState[] = [await get(`/detections/${id}`)]
    while (states.at(-1)!.status !== 'done') {
      const { version } = states.at(-1)!
      const next: DetectionState = await get(`/detections/${id}?wait=25&since=${version}`)
      if (next.version > version) states.push(next)
    }
    return states
  }
  const points = (slug: string, query: string) =>
    get(`/sites/${slug}/history?${query}`).then((body) => body.points)

  test('shows its progress as plain lines, and which pages to look at', async () => {
    const lines = demo.output().split('\n')
    expect(lines.slice(0, 3)).toEqual([
      `Starting ${DEMO_SITES.length} relays on this machine`,
      'Generating 30 days of history',
      'Starting the monitor',
    ])
    expect(demo.output()).not.toContain('\x1b')
    expect(demo.output()).toContain('All sites and measurements are invented.')
    expect(demo.output()).toContain('Ctrl-C ends the demo')
    const links = [...new Set(demo.output().match(/http:\/\/127\.0\.0\.1:\d+\/[\w/-]*/g))]
    expect(links).toHaveLength(6)
    for (const link of links) expect((await fetch(link)).status, link).toBe(200)
  })

  test('every site is listed, in every tier and status, and both regions are measured', async () => {
    const { total, sites } = await get('/sites?include=summary&limit=200')
    expect(total).toBe(DEMO_SITES.length)
    const tiers = new Set(sites.map(({ tier }: { tier: string }) => tier))
    expect([...tiers].sort()).toEqual(['A', 'B', 'C', 'D', 'S'])
    const statuses = new Set(sites.map(({ summary }: { summary: { status: string } }) => summary.status))
    expect([...statuses].sort()).toEqual(['degraded', 'down', 'up'])
    const { regions, vantages } = await get('/meta')
    expect(regions).toEqual({ cn: { measured: true }, overseas: { measured: true } })
    expect(vantages.map(({ name }: { name: string }) => name)).toEqual(['frankfurt', 'shanghai'])
  })

  test('both boards are filled, with changes of rank; Mirage is warned of for what it claims', async () => {
    const [red, black] = [await get('/leaderboard?board=red'), await get('/leaderboard?board=black')]
    expect(red.entries.length).toBeGreaterThanOrEqual(5)
    expect(black.entries.length).toBeGreaterThanOrEqual(5)
    const changes = red.entries.map((entry: { rank_change: number | null }) => entry.rank_change)
    expect(changes).toContain(null) // new
    expect(changes.some((change: number | null) => change !== null && change !== 0)).toBe(true)
    const mirage = black.entries.find(({ slug }: { slug: string }) => slug === 'mirage')
    expect(mirage.reasons).toEqual(['models_missing'])
    expect(mirage.models_claimed).toBeGreaterThan(3 * mirage.models_verified)
  })

  test('a site is blocked in China by DNS, another one by TLS; both are reached from overseas', async () => {
    for (const [slug, blocking] of [
      ['bamboo', 'dns'],
      ['pagoda', 'tls'],
    ]) {
      const { network_profile, reachable_cn, reachable_overseas } = await get(`/sites/${slug}`)
      expect([reachable_cn, reachable_overseas]).toEqual([false, true])
      expect(network_profile.china).toMatchObject({ state: 'unreachable', blocking })
    }
    const { network_profile } = await get('/sites/bamboo')
    expect(network_profile.asn).toMatchObject({
      country: expect.any(String),
      name: expect.stringMatching(/^DEMO-/),
    })
  })

  test('incidents are open and closed, and failures have causes of every layer', async () => {
    const lists = await Promise.all(DEMO_SITES.map(({ slug }) => get(`/sites/${slug}/incidents`)))
    const incidents = lists.flatMap((body) => body.incidents)
    const isOpen = ({ ended_at }: { ended_at: string | null }) => ended_at === null
    expect(incidents.filter(isOpen).length).toBeGreaterThanOrEqual(4)
    expect(incidents.filter((each) => !isOpen(each)).length).toBeGreaterThanOrEqual(20)
    const ofSites = ['cobalt', 'nimbus', 'iris', 'glacier', 'bamboo'].flatMap((slug) => [
      points(slug, 'days=30&history=day&region=cn'),
      points(slug, 'days=30&history=day&region=overseas'),
    ])
    const days = (await Promise.all(ofSites)).flat()
    const codes = new Set(days.flatMap(({ errors }: { errors: object }) => Object.keys(errors)))
    for (const layer of ['dns_', 'connect_', 'tls_', 'http_', 'challenge'])
      expect(
        [...codes].some((code) => code.startsWith(layer)),
        layer,
      ).toBe(true)
  })

  test('the history has gaps, days and nights, a weak evening and a newcomer', async () => {
    const hours = (await points('aurora', 'days=30&history=hour&region=overseas')).map(
      ({ at }: { at: string }) => Date.parse(at),
    )
    const steps = hours.slice(1).map((at: number, i: number) => (at - hours[i]) / 3_600_000)
    expect(steps.filter((step: number) => step >= 3).length).toBeGreaterThanOrEqual(2)
    const { availability_peak_30d } = await get('/sites/nimbus/score')
    const { sites } = await get('/sites?include=summary&q=nimbus')
    expect(availability_peak_30d).toBeLessThan(sites[0].summary.availability_30d - 0.005)
    const perHour = await points('orchid', 'days=6&history=hour&region=cn')
    const medianAt = (hourUtc: string) => {
      const some = perHour.filter(({ at }: { at: string }) => at.slice(11, 13) === hourUtc)
      const sum = some.reduce(
        (total: number, point: { latency_ms: { ttfb: number } }) => total + point.latency_ms.ttfb,
        0,
      )
      return sum / some.length
    }
    expect(medianAt('13')).toBeGreaterThan(1.2 * medianAt('02')) // 21:00 and 10:00 UTC+8
    expect((await points('lotus', 'days=30&history=day')).length).toBeLessThanOrEqual(3)
  })

  test('models were added and removed over time', async () => {
    const changes = (
      await Promise.all(['aurora', 'mirage', 'orchid'].map((slug) => get(`/sites/${slug}/models`)))
    ).flatMap((body) => body.changes)
    const kinds = new Set(changes.map(({ change }: { change: string }) => change))
    expect([...kinds].sort()).toEqual(['added', 'removed'])
  })

  test('one detection is done, and the progress of another one can be watched for a while', async () => {
    expect(ids).toHaveLength(2)
    expect(await get(`/detections/${ids[1]}`)).toMatchObject({
      ...{ status: 'done', site_slug: 'aurora' },
      result: { verdict: 'relay', vantage: 'frankfurt' },
    })
    const states = await watched
    expect([...new Set(states.map(({ status }) => status))].join()).toMatch(/^(queued,)?running,done$/)
    const finished = states.map(({ steps }) => steps.filter(({ status }) => !OPEN_STEPS.has(status)).length)
    expect(finished).toEqual(finished.toSorted((a, b) => a - b))
    expect(finished[0]).toBeLessThan(finished.at(-1)!)
    expect(finished.at(-1)).toBe(states[0].steps.length)
    expect(states.length).toBeGreaterThan(3) // four replies, each of which takes seconds
  })

  test('the agent polls from China', async () => {
    const seen = async () =>
      (await get('/meta')).vantages.find(({ region }: { region: string }) => region === 'cn').last_seen
    const before = await seen()
    await expect.poll(seen, { timeout: WAIT_MS_MAX, interval: 500 }).not.toBe(before)
  })

  test('all of its processes listen on loopback only', () => {
    const pids = listGroup(demo)
    expect(pids).toHaveLength(3) // demo, monitor, agent
    const addresses = listListenAddresses(pids)
    expect(addresses.length).toBeGreaterThan(2 * DEMO_SITES.length)
    for (const address of addresses) expect(address).toMatch(/^(......7F|0{31}1)$/)
  })

  test('Ctrl-C ends every process and removes every file', async () => {
    demo.child.kill('SIGINT')
    expect(await demo.exited).toBe(0)
    expect(listGroup(demo)).toEqual([])
    expect(readdirSync(demo.folder)).toEqual([])
  })
})

// biome-ignore format: a table
const STAGES = [
  [`Starting ${DEMO_SITES.length} relays`, 'SIGINT',  130],
  ['Generating 3 days',                    'SIGTERM', 143],
  ['Starting the monitor',                 'SIGINT',  130],
] as const

test.each(STAGES)(
  'a signal during "%s" ends the start and removes every file',
  async (stage, signal, code) => {
    const demo = startDemo('--addr', '127.0.0.1:0', '--days', '3')
    onTestFinished(() => killGroup(demo))
    await eventually(() => expect(demo.output()).toContain(stage), WAIT_MS_MAX)
    demo.child.kill(signal)
    const ended = await demo.exited
    const isUp = stage === 'Starting the monitor' && UP.test(demo.output()) // it was sooner than the signal
    expect(ended, demo.output()).toBe(isUp ? 0 : code)
    if (!isUp) expect(demo.output()).not.toMatch(UP)
    expect(listGroup(demo)).toEqual([])
    expect(readdirSync(demo.folder)).toEqual([])
  },
)

test('SIGKILL of the demo ends the monitor and the agent', async () => {
  const demo = startDemo('--addr', '127.0.0.1:0', '--days', '1')
  onTestFinished(() => killGroup(demo))
  await eventually(() => expect(demo.output()).toMatch(UP), WAIT_MS_MAX)
  await eventually(() => expect(listGroup(demo)).toHaveLength(3), WAIT_MS_MAX)
  demo.child.kill('SIGKILL')
  expect(await demo.exited).toBeNull()
  await eventually(() => expect(listGroup(demo)).toEqual([]), WAIT_MS_MAX)
})

test('without a reader of its output, as before `| head -1`, the demo ends in order', async () => {
  const demo = startDemo('--addr', '127.0.0.1:0', '--days', '1')
  onTestFinished(() => killGroup(demo))
  await eventually(() => expect(demo.output()).toContain('Starting'), WAIT_MS_MAX)
  demo.child.stdout!.destroy()
  expect(await demo.exited, demo.output()).toBe(0)
  expect(demo.output()).not.toMatch(/EPIPE| {4}at /)
  expect(listGroup(demo)).toEqual([])
  expect(readdirSync(demo.folder)).toEqual([])
})

test('a port in use ends the demo at once, and names --addr', async () => {
  const taken = createServer().listen(0, '127.0.0.1')
  onTestFinished(() => void taken.close())
  await once(taken, 'listening')
  const { port } = taken.address() as { port: number }
  const demo = startDemo('--addr', `127.0.0.1:${port}`)
  onTestFinished(() => killGroup(demo))
  expect(await demo.exited).not.toBe(0)
  expect(demo.output()).toContain(`127.0.0.1:${port} is already in use`)
  expect(demo.output()).toContain('choose another port with --addr')
  expect(demo.output()).not.toContain('    at ') // no stack
  expect(readdirSync(demo.folder)).toEqual([])
})

test('wrong options are refused with the usage', async () => {
  const demo = startDemo('--addr', '0.0.0.0:8090')
  expect(await demo.exited).toBe(2)
  expect(demo.output()).toContain('Use a loopback address')
  expect(demo.output()).toContain('usage: npm run demo')
  expect(readdirSync(demo.folder)).toEqual([])
})

test('the sources start as they are; --help lists every option', () => {
  const { status, stdout } = spawnSync(process.execPath, [SOURCE, '--help'], { encoding: 'utf8' })
  expect(status).toBe(0)
  for (const option of ['--addr', '--days', '--keep', '--help']) expect(stdout).toContain(option)
})
