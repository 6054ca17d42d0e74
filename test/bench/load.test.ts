/** The load generator against a real service: its reports, and that it detects wrong responses. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { main } from '../../bench/load/main.ts'
import { formatRules } from '../../bench/load/requests.ts'
import type { Result } from '../../bench/load/run.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { eventually } from '../helpers/eventually.ts'
import { freePort } from '../helpers/ports.ts'
import { type RunningService, spawnService, startService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const LOAD = fileURLToPath(new URL('../../bench/load/main.ts', import.meta.url))
const CALLS = 300
// A window ends after its calls, so it holds that many on a slow machine, too. A window by time states its --duration.
const SHORT =
  `--warmup 0s --duration 60s --calls ${CALLS} --connections 2 --streams 4 --keys uniform:99`.split(' ')
const BY_TIME = ['--calls', '0', '--duration']
const SCARCE =
  'domain: scarce\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 5 }\n'

const folder = makeTemporaryFolder()
let service: RunningService
let grpc = ''
let json = ''

beforeAll(async () => {
  service = spawnService({
    rules: { 'load.yaml': formatRules('load'), 'scarce.yaml': SCARCE },
    env: { GRPC_FRONTEND: 'http2' },
  })
  await service.logged("Listening for HTTP on '")
  grpc = `grpc://${service.address('gRPC')}`
  json = `${service.http}/json`
})

afterAll(async () => {
  await service.stop('SIGKILL')
})

interface Ended {
  code: number | null
  out: string
  err: string
}

async function load(...args: string[]): Promise<Ended> {
  const ended: Ended = { code: null, out: '', err: '' }
  const stdout = {
    write: (text: string) => {
      ended.out += text
    },
  }
  const stderr = {
    write: (text: string) => {
      ended.err += text
    },
  }
  return Object.assign(ended, { code: await main(args, { stdout, stderr }) })
}

/** Runs a load and returns its result. Arguments replace those of SHORT. */
async function measure(...args: string[]): Promise<Result & { code: number | null }> {
  const { out, err, code } = await load(...SHORT, '--json', '-', ...args)
  expect(err).toBe('')
  return { ...(JSON.parse(out) as Result), code }
}

for (const over of ['grpc', 'json']) {
  test(`closed loop over ${over}: every response is valid, and CPU time is measured`, async () => {
    const pid = String(service.child.pid)
    const result = await measure(
      over === 'grpc' ? grpc : json,
      '--cpu',
      `server=${pid}`,
      '--descriptors',
      '3',
    )
    expect(result).toMatchObject({ code: 0, errors: {}, overLimit: 0, reconnects: 0, openLoop: null })
    expect(result.ok).toBe(result.decisions)
    expect(result.decisions).toBeGreaterThanOrEqual(CALLS)
    expect(result.buckets.reduce((sum, { count }) => sum + count, 0)).toBe(result.decisions)
    expect(result.cpu.server.usPerDecision).toBeGreaterThan(1)
    expect(result.latencyMs.p50).toBeLessThanOrEqual(result.latencyMs.p99)
  })

  test(`open loop over ${over}: every call that was due is made or counted as dropped`, async () => {
    const result = await measure(over === 'grpc' ? grpc : json, '--rate', '500', ...BY_TIME, '300ms')
    expect(result).toMatchObject({ code: 0, errors: {} })
    const { ratePerSec, dropped } = result.openLoop! // a busy machine may drop some
    expect(Math.abs(result.decisions + dropped - ratePerSec * result.seconds)).toBeLessThanOrEqual(2)
    expect(result.decisions).toBeGreaterThan(0)
  })
}

test('open loop beyond the capacity of the server: latency includes the wait, and dropped calls are reported', async () => {
  const overload = ['--rate', '200000', '--backlog', '500', '--streams', '1']
  const result = await measure(json, ...overload, ...BY_TIME, '300ms')
  expect(result.code).toBe(0)
  expect(result.openLoop!.dropped).toBeGreaterThan(1_000)
  expect(result.openLoop!.held).toBeGreaterThan(0)
  expect(result.latencyMs.p50).toBeGreaterThan(2) // 500 calls at 200,000/s
})

test('responses of grpc-js, whose header blocks use the table', async () => {
  const other = await startService({
    rules: { 'load.yaml': formatRules('load') },
    env: { GRPC_FRONTEND: 'grpc-js' },
  })
  const result = await measure(`grpc://${other.address('gRPC')}`, '--deadline', '60s')
  expect(result).toMatchObject({ code: 0, errors: {} })
})

test('OVER_LIMIT is not an error, and is counted separately', async () => {
  const result = await measure(
    grpc,
    '--domain',
    'scarce',
    '--entries',
    '1',
    '--keys',
    'hot',
    '--warmup',
    '0s',
  )
  expect(result).toMatchObject({ code: 0, errors: {} })
  expect(result.ok).toBe(5) // without a warm-up the window has the first calls
  expect(result.overLimit).toBe(result.decisions - 5)
  expect(result.decisions).toBeGreaterThanOrEqual(CALLS)
})

// biome-ignore format: a table
const wrong: [string, string | null, string][] = [
  // what the server does                   its response, of two wanted  what is reported
  ['does not have the service',             null,                      'gRPC status 12'],
  ['answers with too few statuses',         '0801 1202 0801',          'wrong response'],
  ['answers with an unknown code',          '0801 1202 0801 1202 0800', 'wrong response'],
  ['answers with something else',           'ff',                      'wrong response'],
]

for (const [what, response, reported] of wrong) {
  test.concurrent(`a server that ${what}: exit code 1 and the cause`, async ({ onTestFinished }) => {
    const server = await startGrpc(response)
    onTestFinished(() => server.stop())
    const { code, errors } = await measure(`grpc://${server.address}`)
    expect(code).toBe(1)
    expect(Object.keys(errors)[0]).toContain(reported)
  })
}

test('an HTTP server that answers something else: exit code 1 and the cause', async () => {
  const server = createServer((_, response) => response.end('OK')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const { code, errors } = await measure(`http://127.0.0.1:${port}/json`)
  expect(code).toBe(1)
  expect(Object.keys(errors)).toEqual(['wrong response: not JSON'])
})

test('--help lists every flag; --rules prints the rules of the tests above', async () => {
  const [help, rules] = await Promise.all([load('--help'), load('--rules')])
  expect(help).toMatchObject({ code: 0, err: '' })
  for (const flag of ['connections', 'rate', 'keys', 'cpu', 'html']) expect(help.out).toContain(`--${flag} `)
  expect(rules).toEqual({ code: 0, out: formatRules('load'), err: '' })
})

// biome-ignore format: a table
const mistakes: [string[], number, string][] = [
  [[],                                              2, ''],
  [['ftp://x'],                                     2, 'load: ftp://x: is no endpoint. Write grpc://host:port or http://host:port/json. [LOAD_USAGE]\n'],
  [['grpc://x', '--keys', 'zipf'],                  2, 'load: --keys: "zipf" is not understood. Write hot, zipf:N with N up to 1000000, or uniform:N with N up to 1000000000. [LOAD_USAGE]\n'],
  [['grpc://x', '--duration', '10'],                2, 'load: --duration: "10" is not understood. Write a time such as 500ms, 10s or 2m, at least 100 ms. [LOAD_USAGE]\n'],
  [['grpc://x', '--descriptors=11'],                2, 'load: --descriptors: "11" is not understood. Write a whole number from 1 to 10. [LOAD_USAGE]\n'],
  [['grpc://x', '--nonsense', '1'],                 2, 'load: --nonsense: is no flag of this command. See --help. [LOAD_USAGE]\n'],
  [['grpc://x', '--rate'],                          2, 'load: --rate: needs a value: N. See --help. [LOAD_USAGE]\n'],
  [['grpc://127.0.0.1:1', '--pid', '4194305'],      1, 'load: --pid 4194305: there is no process 4194305 on this machine. See `pgrep -a`. [LOAD_PID]\n'],
]

test('mistakes on the command line: what, where, and what is valid', async () => {
  const ended = await Promise.all(mistakes.map(([args]) => load(...args)))
  expect(ended.map(({ code, err }) => [code, err])).toEqual(mistakes.map(([, code, err]) => [code, err]))
})

test('a file that cannot be written is an error before the load begins', async () => {
  const path = join(folder, 'missing', 'report')
  for (const flag of ['--html', '--json']) {
    const { code, err } = await load('grpc://127.0.0.1:1', flag, path)
    expect(code).toBe(1)
    expect(err).toContain(`load: ${flag}: cannot write ${path}: ENOENT`)
  }
})

test('a domain without rules: every response is OK, and the reports warn that no limit was measured', async () => {
  const path = join(folder, 'unruled.html')
  const warning = 'no rule applied to any request'
  for (const endpoint of [grpc, json]) {
    const { out } = await load(endpoint, ...SHORT, '--domain', 'unknown', '--html', path)
    expect(out).toContain(`WARNING     ${warning}`)
    expect(readFileSync(path, 'utf8')).toContain(`<p class="bad">Warning: ${warning}`)
    expect((await measure(endpoint, '--domain', 'unknown')).warnings[0]).toContain(warning)
    const ruled = await measure(endpoint)
    expect(ruled).toMatchObject({ warnings: [], limited: ruled.decisions })
  }
})

describe.concurrent('windows that take their time', () => {
  test('connections that the server ends with GOAWAY are replaced, and no call is lost', async () => {
    await withService({ GRPC_FRONTEND: 'http2', GRPC_MAX_CONNECTION_AGE: '300ms' }, async (other) => {
      const result = await measure(`grpc://${other.address('gRPC')}`, '--rate', '200', ...BY_TIME, '2s')
      expect(result).toMatchObject({ code: 0, errors: {} })
      expect(result.reconnects).toBeGreaterThan(0)
    })
  })

  test('the report is one file that loads nothing', async () => {
    const path = join(folder, 'report.html')
    const { code, out, err } = await load(grpc, ...SHORT, ...BY_TIME, '1100ms', '--html', path)
    expect(code).toBe(0)
    expect(out).toMatch(/decisions +[\d,]+ .*\nlatency ms +p50/)
    expect(err).toMatch(/^ +1\.0 s +[\d,]+\/s {2}p50/) // no terminal: plain lines
    const html = readFileSync(path, 'utf8')
    expect(html.match(/<svg /g)).toHaveLength(4)
    expect(html).not.toMatch(/<script|<link|<img|@import|url\(|(src|href)=/)
    expect(html).not.toMatch(/NaN|Infinity|undefined/)
    expect(html).toContain('prefers-color-scheme: dark')
    for (const tag of ['html', 'body', 'svg', 'text', 'div', 'pre']) {
      expect(html.split(`</${tag}>`).length, tag).toBe(html.split(new RegExp(`<${tag}[ >]`)).length)
    }
  })

  test('Ctrl-C: the figures so far are printed and saved', async ({ onTestFinished }) => {
    const path = join(folder, 'cut.json')
    const child = spawn(process.execPath, [LOAD, grpc, '--warmup', '0s', '--duration', '10m', '--json', path])
    onTestFinished(() => void child.kill('SIGKILL'))
    let out = ''
    child.stdout.on('data', (text) => {
      out += text
    })
    await once(child.stderr, 'data') // a line of progress: the window is open
    child.kill('SIGINT')
    expect(await once(child, 'close')).toEqual([0, null])
    expect(out).toContain('of warm-up, ended early\n')
    const result = JSON.parse(readFileSync(path, 'utf8')) as Result
    expect(result.isCut).toBe(true)
    expect(result.seconds).toBeLessThan(60)
  })

  test('open loop when the server ends: calls not made are reported separately, and errors in the progress', async () => {
    await withService({}, async (other) => {
      const flags = ['--rate', '200', '--warmup', '0s', '--duration', '3s', '--backlog', '600'] // more than are due
      const running = load(`grpc://${other.address('gRPC')}`, ...flags)
      await eventually(async () =>
        expect(
          (await other.stats())['ratelimit.service.rate_limit.load.user.path.total_hits'],
        ).toBeGreaterThan(0),
      )
      await other.stop('SIGKILL')
      const { code, out, err } = await running
      expect(code).toBe(1)
      expect(out).toMatch(/calls were never made: no connection was open/)
      expect(out).not.toContain('too many were waiting')
      expect(out).toMatch(
        /\nerrors +[\d,]+ failed calls, warm-up included; in neither rate nor latency\nERROR /,
      )
      expect(err).toMatch(/p50 - .* errors \d/)
    })
  })
})

test('no server, or another protocol: exit code 1 and a hint', async () => {
  const port = await freePort()
  const [refused, other] = await Promise.all([
    load(`grpc://127.0.0.1:${port}`),
    load(json.replace('http', 'grpc')),
  ])
  expect(refused.code).toBe(1)
  expect(refused.err).toContain(`grpc://127.0.0.1:${port}: cannot connect: connect ECONNREFUSED`)
  expect(other.code).toBe(1)
  expect(other.err).toContain('Is a gRPC server without TLS there? [LOAD_CONNECT]')
})

/** Another service, for the time of `use`. */
async function withService(
  env: Record<string, string>,
  use: (service: RunningService) => Promise<void>,
): Promise<void> {
  const other = spawnService({ rules: { 'load.yaml': formatRules('load') }, env })
  try {
    await other.logged("Listening for HTTP on '")
    await use(other)
  } finally {
    await other.stop('SIGKILL')
  }
}

/** A server that always sends the same response; null: without the service. */
async function startGrpc(response: string | null): Promise<{ address: string; stop(): void }> {
  const server = new Server()
  const method = {
    path: SHOULD_RATE_LIMIT,
    requestStream: false,
    responseStream: false,
    requestSerialize: (bytes: Buffer) => bytes,
    requestDeserialize: (bytes: Buffer) => bytes,
    responseSerialize: (bytes: Buffer) => bytes,
    responseDeserialize: (bytes: Buffer) => bytes,
  } as const
  if (response !== null) {
    const bytes = Buffer.from(response.replaceAll(' ', ''), 'hex')
    server.addService(
      { shouldRateLimit: method },
      { shouldRateLimit: (_: unknown, reply: (e: null, b: Buffer) => void) => reply(null, bytes) },
    )
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    )
  })
  return { address: `127.0.0.1:${port}`, stop: () => server.forceShutdown() }
}
