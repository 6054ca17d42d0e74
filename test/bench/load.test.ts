/** The load generator as people run it, on a real service: what it reports, and that it notices wrong answers. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { Server, ServerCredentials } from '@grpc/grpc-js'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { rulesFor } from '../../bench/load/requests.ts'
import type { Result } from '../../bench/load/run.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { freePort } from '../helpers/ports.ts'
import { type RunningService, spawnService, startService } from '../helpers/service.ts'

const LOAD = fileURLToPath(new URL('../../bench/load/main.ts', import.meta.url))
const SHORT = [
  '--warmup',
  '50ms',
  '--duration',
  '300ms',
  '--connections',
  '2',
  '--streams',
  '4',
  '--keys',
  'uniform:99',
]
const SCARCE =
  'domain: scarce\ndescriptors:\n  - key: user\n    rate_limit: { unit: hour, requests_per_unit: 5 }\n'

const folder = mkdtempSync(join(tmpdir(), 'sluice-load-'))
let service: RunningService
let grpc = ''
let json = ''

beforeAll(async () => {
  service = spawnService({
    rules: { 'load.yaml': rulesFor('load'), 'scarce.yaml': SCARCE },
    env: { GRPC_FRONTEND: 'http2' },
  })
  await service.logged("Listening for HTTP on '")
  grpc = `grpc://${service.address('gRPC')}`
  json = `${service.http}/json`
})

afterAll(async () => {
  await service.stop('SIGKILL')
  rmSync(folder, { recursive: true })
})

interface Ended {
  code: number | null
  out: string
  err: string
}

function load(...args: string[]): Promise<Ended> {
  const child = spawn(process.execPath, [LOAD, ...args])
  const ended: Ended = { code: null, out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    ended.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    ended.err += text
  })
  return new Promise((resolve) => child.once('close', (code) => resolve({ ...ended, code })))
}

/** A run whose result is wanted; `SHORT` unless the arguments say more. */
async function measured(...args: string[]): Promise<Result & { code: number | null }> {
  const { out, err, code } = await load(...SHORT, '--json', '-', ...args)
  expect(err).toBe('')
  return { ...(JSON.parse(out) as Result), code }
}

for (const over of ['grpc', 'json']) {
  test(`closed loop over ${over}: every answer is right, and CPU is accounted for`, async () => {
    const pid = String(service.child.pid)
    const result = await measured(
      over === 'grpc' ? grpc : json,
      '--cpu',
      `server=${pid}`,
      '--descriptors',
      '3',
    )
    expect(result).toMatchObject({ code: 0, errors: {}, overLimit: 0, reconnects: 0, openLoop: null })
    expect(result.ok).toBe(result.decisions)
    expect(result.decisions).toBeGreaterThan(100)
    expect(result.buckets.reduce((sum, { count }) => sum + count, 0)).toBe(result.decisions)
    expect(result.cpu.server.usPerDecision).toBeGreaterThan(1)
    expect(result.latencyMs.p50).toBeLessThanOrEqual(result.latencyMs.p99)
  })

  test(`open loop over ${over}: so many calls as were due, none dropped`, async () => {
    const result = await measured(over === 'grpc' ? grpc : json, '--rate', '500')
    expect(result).toMatchObject({ code: 0, errors: {} })
    expect(result.openLoop).toMatchObject({ ratePerSec: 500, dropped: 0 })
    expect(Math.abs(result.decisions - 500 * result.seconds)).toBeLessThanOrEqual(2)
  })
}

test('open loop beyond what can be done: latency counts the wait, and what is dropped is told', async () => {
  const result = await measured(json, '--rate', '200000', '--backlog', '500', '--streams', '1')
  expect(result.code).toBe(0)
  expect(result.openLoop!.dropped).toBeGreaterThan(1_000)
  expect(result.openLoop!.held).toBeGreaterThan(100)
  expect(result.latencyMs.p50).toBeGreaterThan(2) // 500 calls at 200,000/s
})

test('answers of grpc-js, whose header blocks use the table, are read as well', async () => {
  const other = await startService({
    rules: { 'load.yaml': rulesFor('load') },
    env: { GRPC_FRONTEND: 'grpc-js' },
  })
  const result = await measured(`grpc://${other.address('gRPC')}`, '--deadline', '2s')
  expect(result).toMatchObject({ code: 0, errors: {} })
})

test('connections that the server ends in order are replaced, and no call is lost', async () => {
  const env = { GRPC_FRONTEND: 'http2', GRPC_MAX_CONNECTION_AGE: '500ms' }
  const other = await startService({ rules: { 'load.yaml': rulesFor('load') }, env })
  const result = await measured(`grpc://${other.address('gRPC')}`, '--duration', '1200ms')
  expect(result).toMatchObject({ code: 0, errors: {} })
  expect(result.reconnects).toBeGreaterThan(0)
})

test('OVER_LIMIT is an answer, and is counted apart', async () => {
  const result = await measured(
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
  expect(result.ok).toBe(5) // the very first calls are in the window
  expect(result.overLimit).toBe(result.decisions - result.ok)
  expect(result.overLimit).toBeGreaterThan(50)
})

test('the report is one file that needs nothing else', async () => {
  const path = join(folder, 'report.html')
  const { code, out, err } = await load(grpc, ...SHORT, '--duration', '1100ms', '--html', path)
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

// biome-ignore format: a table
const wrong: [string, string | null, string][] = [
  // what the server does                   its answer, of two asked   what is reported
  ['does not have the service',             null,                      'gRPC status 12'],
  ['answers with too few statuses',         '0801 1202 0801',          'wrong answer'],
  ['answers with a code that is no answer', '0801 1202 0801 1202 0800', 'wrong answer'],
  ['answers with something else',           'ff',                      'wrong answer'],
]

for (const [what, response, reported] of wrong) {
  test.concurrent(`a server that ${what}: exit code 1, and it says why`, async ({ onTestFinished }) => {
    const server = await startGrpc(response)
    onTestFinished(() => server.stop())
    const { code, errors } = await measured(`grpc://${server.address}`)
    expect(code).toBe(1)
    expect(Object.keys(errors)[0]).toContain(reported)
  })
}

test('an HTTP server that answers something else: exit code 1, and it says why', async () => {
  const server = createServer((_, response) => response.end('OK')).listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => void server.close())
  const { port } = server.address() as AddressInfo
  const { code, errors } = await measured(`http://127.0.0.1:${port}/json`)
  expect(code).toBe(1)
  expect(Object.keys(errors)).toEqual(['wrong answer: not JSON'])
})

test('--help tells every flag; --rules prints what the tests above ran with', async () => {
  const [help, rules] = await Promise.all([load('--help'), load('--rules')])
  expect(help).toMatchObject({ code: 0, err: '' })
  for (const flag of ['connections', 'rate', 'keys', 'cpu', 'html']) expect(help.out).toContain(`--${flag} `)
  expect(rules).toEqual({ code: 0, out: rulesFor('load'), err: '' })
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

test('mistakes on the command line: what, where, and what is right', async () => {
  const ended = await Promise.all(mistakes.map(([args]) => load(...args)))
  expect(ended.map(({ code, err }) => [code, err])).toEqual(mistakes.map(([, code, err]) => [code, err]))
})

test('a file that cannot be written is refused before anybody is asked', async () => {
  const path = join(folder, 'missing', 'report')
  for (const flag of ['--html', '--json']) {
    const { code, err } = await load('grpc://127.0.0.1:1', flag, path)
    expect(code).toBe(1)
    expect(err).toContain(`load: ${flag}: cannot write ${path}: ENOENT`)
  }
})

test('a domain without rules: every answer is OK, and the reports say that nothing was measured', async () => {
  const path = join(folder, 'unruled.html')
  const warning = 'no rule applied to any request'
  for (const endpoint of [grpc, json]) {
    const { out } = await load(endpoint, ...SHORT, '--domain', 'nobody', '--html', path)
    expect(out).toContain(`WARNING     ${warning}`)
    expect(readFileSync(path, 'utf8')).toContain(`<p class="bad">Warning: ${warning}`)
    expect((await measured(endpoint, '--domain', 'nobody')).warnings[0]).toContain(warning)
    const ruled = await measured(endpoint)
    expect(ruled).toMatchObject({ warnings: [], limited: ruled.decisions })
  }
})

test('Ctrl-C: the figures so far, in files too', async () => {
  const path = join(folder, 'cut.json')
  const child = spawn(process.execPath, [LOAD, grpc, '--warmup', '0s', '--duration', '60s', '--json', path])
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
  expect(result.decisions).toBeGreaterThan(100)
  expect(result.seconds).toBeLessThan(30)
})

test('open loop, and the server goes: the calls not made are told as such, and errors in the progress', async () => {
  const other = await startService({ rules: { 'load.yaml': rulesFor('load') } })
  const flags = ['--rate', '200', '--warmup', '0s', '--duration', '3s', '--backlog', '50']
  const running = load(`grpc://${other.address('gRPC')}`, ...flags)
  setTimeout(() => void other.stop('SIGKILL'), 800)
  const { code, out, err } = await running
  expect(code).toBe(1)
  expect(out).toMatch(/calls were never made: no connection stood/)
  expect(out).not.toContain('too many were waiting')
  expect(out).toMatch(/\nerrors +[\d,]+ failed calls, warm-up included; in neither rate nor latency\nERROR /)
  expect(err).toMatch(/p50 - .* errors \d/)
})

test('nobody there, or somebody else: exit code 1, and a hint', async () => {
  const port = await freePort()
  const [nobody, other] = await Promise.all([
    load(`grpc://127.0.0.1:${port}`),
    load(json.replace('http', 'grpc')),
  ])
  expect(nobody.code).toBe(1)
  expect(nobody.err).toContain(`grpc://127.0.0.1:${port}: cannot connect: connect ECONNREFUSED`)
  expect(other.code).toBe(1)
  expect(other.err).toContain('Is a gRPC server without TLS there? [LOAD_CONNECT]')
})

/** A server that always answers the same; null: without the service. */
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
      { ask: method },
      { ask: (_: unknown, reply: (e: null, b: Buffer) => void) => reply(null, bytes) },
    )
  }
  const port = await new Promise<number>((resolve, reject) => {
    server.bindAsync('127.0.0.1:0', ServerCredentials.createInsecure(), (error, bound) =>
      error ? reject(error) : resolve(bound),
    )
  })
  return { address: `127.0.0.1:${port}`, stop: () => server.forceShutdown() }
}
