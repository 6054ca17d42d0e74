/** The debug port in this process. Its main thread responds to measurements; `worker 7` does not exist. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { BroadcastChannel } from 'node:worker_threads'
import { gunzipSync } from 'node:zlib'
import { Profile } from 'pprof-format'
import { afterEach, beforeAll, expect, test } from 'vitest'
import { handleInspections } from '../../../engine/runtime/inspection/inspected-thread.ts'
import {
  type InspectionRequest,
  REQUESTS_CHANNEL,
  responseChannelName,
} from '../../../engine/runtime/inspection/messages.ts'
import { DebugServer } from '../../../transports/debug/server.ts'
import { eventually } from '../../helpers/eventually.ts'

const INDEX = `/debug/pprof/: root of various pprof endpoints. hit for help.
/debug/pprof/profile: CPU profiling endpoint
/debug/pprof/trace: trace endpoint
/debug/threads: state of each thread, measured for a second
/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
`
const TEXT = 'text/plain; charset=utf-8'
const STATS: [string, number][] = [
  ['a.total_hits', 3],
  ['b "quoted"', 2 ** 53 - 1],
]

let server: DebugServer

beforeAll(() => handleInspections('main', () => [['gRPC', '3 connections']]))
afterEach(() => server.close())

interface Given {
  token?: string
  threads?: string[]
  loadFailure?: string
  stats?: () => Promise<[string, number][]>
}

function open(options: Given = {}): string {
  server = new DebugServer({
    host: '127.0.0.1',
    port: 0,
    token: options.token ?? '',
    names: new Set(['debug.example.org']),
    threads: options.threads ?? ['main'],
    rules: () => null,
    loadFailure: () => options.loadFailure ?? null,
    stats: options.stats ?? (async () => STATS),
    threadsMs: 50,
  })
  return `http://127.0.0.1:${server.port}`
}

for (const path of ['/', '/nonsense', '/stats/', '/debug', '/debug/vars', '/RLCONFIG', '//']) {
  test(`6.5#1: ${path} is the index`, async () => {
    const response = await fetch(open() + path)
    expect(response.status).toBe(200)
    expect(response.headers.get('content-type')).toBe(TEXT)
    expect(await response.text()).toBe(INDEX)
  })
}

for (const method of ['POST', 'PUT', 'DELETE', 'OPTIONS']) {
  test(`6.5: ${method} is accepted`, async () => {
    expect(await (await fetch(open(), { method })).text()).toBe(INDEX)
  })
}

test('6.5: HEAD has no body, and ends the connection', async () => {
  const socket = connect(Number(new URL(open()).port), '127.0.0.1')
  let response = ''
  socket.on('data', (bytes) => {
    response += bytes
  })
  socket.write('HEAD / HTTP/1.1\r\nHost: x\r\n\r\n')
  await once(socket, 'close')
  expect(response).toMatch(
    /^HTTP\/1.1 200 OK\r\n(.+\r\n)*Connection: close\r\n(.+\r\n)*Content-Length: \d{3}\r\n\r\n$/,
  )
})

test('6.5#4: /rlconfig is JSON if requested', async () => {
  const url = `${open({ loadFailure: 'why' })}/rlconfig`
  for (const response of [
    await fetch(`${url}?format=json`),
    await fetch(url, { headers: { Accept: 'application/json' } }),
  ]) {
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toEqual({ load_failure: 'why', rules: [] })
  }
})

test('6.5#4: /rlconfig is empty without rules', async () => {
  expect(await (await fetch(`${open()}/rlconfig`)).text()).toBe('')
})

test('6.5#4: /rlconfig has the error of a failed load on one line', async () => {
  const text = await (await fetch(`${open({ loadFailure: 'config.yaml: bad\n  unit' })}/rlconfig`)).text()
  expect(text).toBe('# the last load failed: config.yaml: bad unit\n')
})

test('6.5#5: /stats is a line per name', async () => {
  const response = await fetch(`${open()}/stats`)
  expect(response.headers.get('content-type')).toBe(TEXT)
  expect(await response.text()).toBe('a.total_hits: 3\nb "quoted": 9007199254740991\n')
})

test('6.5#5: /stats is JSON if requested', async () => {
  const url = open()
  const byHeader = await fetch(`${url}/stats`, { headers: { Accept: 'text/html, application/json' } })
  const byQuery = await fetch(`${url}/stats?format=json`)
  for (const response of [byHeader, byQuery]) {
    expect(response.headers.get('content-type')).toBe('application/json')
    expect(await response.json()).toEqual({ 'a.total_hits': 3, 'b "quoted"': 2 ** 53 - 1 })
  }
})

test('6.5#5: /stats that cannot be read is 500, and the next one works', async () => {
  let isBroken = true
  const url = open({ stats: async () => (isBroken ? Promise.reject(new Error('no worker answers')) : STATS) })
  const response = await fetch(`${url}/stats`)
  expect([response.status, await response.text()]).toEqual([500, 'no worker answers\n'])
  isBroken = false
  expect((await fetch(`${url}/stats`)).status).toBe(200)
})

test('6.5#2: /debug/pprof/ lists the profiles', async () => {
  const text = await (await fetch(`${open()}/debug/pprof/`)).text()
  expect(text.match(/^\/debug\/pprof\/\w+/gm)).toEqual([
    '/debug/pprof/cmdline',
    '/debug/pprof/heap',
    '/debug/pprof/profile',
    '/debug/pprof/trace',
  ])
})

for (const name of ['goroutine', 'block', 'mutex', 'threadcreate', 'allocs', 'symbol', 'toString']) {
  test(`6.5#2: /debug/pprof/${name} is 404 and lists the profiles`, async () => {
    const response = await fetch(`${open()}/debug/pprof/${name}`)
    expect(response.status).toBe(404)
    expect(await response.text()).toMatch(
      new RegExp(
        `^${name} does not exist in Node. Available profiles:\n\n/debug/pprof/cmdline: .*\n/debug/pprof/heap`,
      ),
    )
  })
}

test('6.5#2: /debug/pprof/cmdline is the command with arguments separated by NUL', async () => {
  const text = await (await fetch(`${open()}/debug/pprof/cmdline`)).text()
  expect(text.split('\0')).toEqual(process.argv)
})

for (const seconds of ['0', '301', '-1', '1.5', '', 'x', '1e2']) {
  test(`6.5#3: seconds=${seconds} is 400 and the range`, async () => {
    const response = await fetch(`${open()}/debug/pprof/profile?seconds=${seconds}`)
    expect(response.status).toBe(400)
    expect(await response.text()).toBe('seconds must be a whole number, 1 to 300\n')
  })
}

test('6.5#3: a CPU profile shows the functions of the thread; a concurrent one is 409', async () => {
  const url = open({ threads: ['main', 'worker 7'] })
  const begun = measurementBegins()
  const profile = fetch(`${url}/debug/pprof/profile?seconds=1`)
  const working = setInterval(keepsTheThreadBusy, 20)
  await begun
  const second = await fetch(`${url}/debug/pprof/heap`)
  expect(second.status).toBe(409)
  expect(await second.text()).toBe(
    '/debug/pprof/profile?seconds=1 is running; only one profile runs at a time. Try again in 1 s.\n',
  )
  const response = await profile
  clearInterval(working)
  expect(response.headers.get('content-type')).toBe('application/octet-stream')
  const { stringTable, comment } = Profile.decode(gunzipSync(await response.arrayBuffer()))
  expect(stringTable.strings).toContain('keepsTheThreadBusy')
  expect(comment.map((index) => stringTable.strings[Number(index)])).toEqual([
    'missing: worker 7: no response',
  ])
})

test('6.5#3: a client that disconnects ends its profile', async () => {
  const url = open()
  const client = new AbortController()
  const begun = measurementBegins()
  const profile = fetch(`${url}/debug/pprof/profile?seconds=300`, { signal: client.signal })
  await begun
  client.abort()
  await expect(profile).rejects.toThrow()
  let response = await fetch(`${url}/debug/pprof/profile?seconds=1`)
  while (response.status === 409) response = await fetch(`${url}/debug/pprof/profile?seconds=1`)
  expect(response.status).toBe(200) // a running profiler could not be started
})

test('6.5: /debug/threads lists each thread, and those without a response', async () => {
  const text = await (await fetch(`${open({ threads: ['main', 'worker 7'] })}/debug/threads`)).text()
  expect(text).toMatch(
    new RegExp(
      '^main +up [\\dhms.]+(, thread \\d+)?\n' +
        '  event loop +[\\d.]+ % busy, waits: [\\d.]+ ms at least, [\\d.]+ ms mean, [\\d.]+ ms p99, [\\d.]+ ms at most\n' +
        '  heap +[\\d.]+ MiB used of [\\d.]+ MiB, [\\d.]+ MiB outside\n' +
        '  gRPC +3 connections\n' +
        '\nworker 7: no response\n$',
    ),
  )
})

test('6.5: four concurrent requests for /debug/threads; the fifth is 409 and succeeds later', async () => {
  const url = open()
  const all = Array.from({ length: 5 }, () => fetch(`${url}/debug/threads`))
  const statuses = (await Promise.all(all)).map(({ status }) => status).sort()
  expect(statuses).toEqual([200, 200, 200, 200, 409])
  expect((await fetch(`${url}/debug/threads`)).status).toBe(200)
})

test('6.5: a thread that blocks during a measurement is listed as missing', async () => {
  const url = open()
  const requests = new BroadcastChannel(REQUESTS_CHANNEL) // of a thread that responds to `call` only
  requests.onmessage = ({ data }: { data: InspectionRequest }) => {
    if (data.step !== 'call') return
    const responses = new BroadcastChannel(responseChannelName(data.id))
    responses.postMessage({ thread: 'worker 9', step: 'here', nativeId: 0 })
    responses.close()
  }
  const text = await (await fetch(`${url}/debug/threads`)).text()
  requests.close()
  expect(text).toMatch(/^main /)
  expect(text).toMatch(/\nworker 9: no response\n$/)
})

const PATHS = ['/', '/rlconfig', '/stats', '/debug/threads', '/debug/pprof/', '/debug/pprof/profile']
for (const path of PATHS) {
  test(`6.5: with a token, ${path} without it is 401`, async () => {
    const url = open({ token: 'sesame' })
    const wrong = [
      await fetch(url + path),
      await fetch(url + path, { headers: { Authorization: 'Bearer sesam' } }),
      await fetch(url + path, { headers: { Authorization: 'Basic sesame' } }),
      await fetch(`${url}${path}?token=`),
      await fetch(`${url}${path}?token=Sesame`),
    ]
    for (const response of wrong) {
      expect(response.status).toBe(401)
      expect(response.headers.get('www-authenticate')).toBe('Bearer realm="debug"')
      expect(await response.text()).toContain('Authorization: Bearer <token>')
    }
  })
}

/** fetch cannot send another Host. */
async function getByHost(host: string, path = '/stats'): Promise<{ status: number; text: string }> {
  const socket = connect(server.port, '127.0.0.1')
  let text = ''
  socket.setEncoding('utf8').on('data', (chunk) => {
    text += chunk
  })
  socket.write(`GET ${path} HTTP/1.1\r\nHost: ${host}\r\nConnection: close\r\n\r\n`)
  await once(socket, 'close')
  return { status: Number(text.slice(9, 12)), text }
}

test('6.5: without a token, an unknown host is 421 with a remedy', async () => {
  open()
  for (const path of ['/', '/stats', '/rlconfig', '/debug/pprof/', '/debug/threads']) {
    const { status, text } = await getByHost('evil.example:6070', path)
    expect(status, path).toBe(421)
    expect(text).toContain('add the name to DEBUG_ALLOWED_HOSTS, or set DEBUG_TOKEN.')
    expect(text).not.toContain('evil')
  }
  for (const host of ['localhost:6070', '127.0.0.1', 'debug.example.org'])
    expect((await getByHost(host)).status, host).toBe(200)
})

test('6.5: without a token, requests of pages of other sites are 403, an entered address is not', async () => {
  const url = open()
  const getStatus = async (headers: Record<string, string>) =>
    (await fetch(`${url}/stats`, { headers })).status
  for (const [name, value] of [
    ['Origin', 'http://evil.example'],
    ['Origin', 'null'],
    ['Sec-Fetch-Site', 'cross-site'],
  ])
    expect(await getStatus({ [name]: value }), value).toBe(403)
  for (const site of ['none', 'same-origin']) expect(await getStatus({ 'Sec-Fetch-Site': site })).toBe(200)
})

test('6.5: with a token, any host is accepted', async () => {
  open({ token: 'sesame' })
  expect((await getByHost('evil.example', '/stats?token=sesame')).status).toBe(200)
  expect((await getByHost('evil.example')).status).toBe(401)
})

test('6.5: the token is accepted in the header and in the query', async () => {
  const url = open({ token: 'se/sa+me=' })
  const responses = [
    await fetch(url, { headers: { Authorization: 'Bearer se/sa+me=' } }),
    await fetch(url, { headers: { Authorization: 'bearer  se/sa+me=' } }),
    await fetch(`${url}/?token=${encodeURIComponent('se/sa+me=')}`),
  ]
  for (const response of responses) expect(response.status).toBe(200)
})

/** Resolves when a thread is told to begin a measurement. */
async function measurementBegins(): Promise<void> {
  const requests = new BroadcastChannel(REQUESTS_CHANNEL)
  await new Promise<void>((resolve) => {
    requests.onmessage = ({ data }: { data: InspectionRequest }) => {
      if (data.step === 'begin') resolve()
    }
  })
  requests.close()
}

/** For 15 of every 20 ms. */
function keepsTheThreadBusy(): void {
  const endMs = performance.now() + 15
  while (performance.now() < endMs);
}

test('unread responses are not produced ahead; a further request on that connection ends it', async () => {
  const line = [`a.${'x'.repeat(10_000)}`, 1] as [string, number]
  let yieldedCount = 0
  const stats = Object.assign([line], {
    *[Symbol.iterator]() {
      for (; yieldedCount < 10_000; yieldedCount++) yield line // 100 MB
    },
  })
  open({ stats: async () => stats })
  const socket = connect(server.port, '127.0.0.1')
  socket.pause()
  socket.write('GET /stats HTTP/1.1\r\nHost: a\r\n\r\n')
  await settles(() => yieldedCount)
  expect(yieldedCount).toBeLessThan(2_000) // what the sockets of both sides hold
  const countBefore = yieldedCount
  socket.write('GET /stats HTTP/1.1\r\nHost: a\r\n\r\n'.repeat(100))
  socket.resume()
  await once(socket, 'close')
  expect(yieldedCount - countBefore).toBeLessThan(2_000)
})

test('a client that reads slowly gets the whole response', async () => {
  const stats: [string, number][] = Array.from({ length: 200_000 }, (_, index) => [`a.name_${index}`, index])
  const response = await fetch(`${open({ stats: async () => stats })}/stats`)
  let text = ''
  for await (const chunk of response.body!.pipeThrough(new TextDecoderStream())) {
    text += chunk
    await sleep(1)
  }
  expect(text).toBe(stats.map(([name, value]) => `${name}: ${value}\n`).join(''))
})

/** Resolves when a number has not changed for 200 ms. */
async function settles(figure: () => number): Promise<void> {
  for (let before = -1; figure() !== before; ) {
    before = figure()
    await sleep(200)
  }
}

test('eight clients may read at once; each counts until it has read to the end', async () => {
  const stats: [string, number][] = Array.from({ length: 200_000 }, (_, index) => [`a.name_${index}`, index])
  const url = open({ stats: async () => stats })
  const unread = await Promise.all(
    Array.from({ length: 8 }, async (_, index) => {
      const socket = connect(server.port, '127.0.0.1')
      socket.write(`GET /${index < 4 ? 'stats' : 'stats?format=json'} HTTP/1.1\r\nHost: a\r\n\r\n`)
      await once(socket, 'readable')
      return socket
    }),
  )
  for (const path of ['/stats', '/rlconfig']) expect((await fetch(url + path)).status).toBe(409)
  for (const socket of unread) socket.destroy()
  await eventually(async () => expect(await (await fetch(`${url}/rlconfig`)).status).toBe(200))
})
