/** `npm run compare` as people run it. A program that starts our own service stands in for the reference. */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { afterAll, expect, test } from 'vitest'
import { rulesFor } from '../../bench/load/requests.ts'
import { startService } from '../helpers/service.ts'

const COMPARE = fileURLToPath(new URL('../../bench/compare/main.ts', import.meta.url))
const SLUICE = fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const SHORT = ['--window', '200ms', '--warmup', '50ms', '--keys', 'uniform:99']

const folder = mkdtempSync(join(tmpdir(), 'sluice-compare-test-'))
afterAll(() => rmSync(folder, { recursive: true }))

function compare(...args: string[]): Promise<{ code: number | null; out: string; err: string }> {
  const child = spawn(process.execPath, [COMPARE, ...args])
  const ended = { out: '', err: '' }
  child.stdout.setEncoding('utf8').on('data', (text) => {
    ended.out += text
  })
  child.stderr.setEncoding('utf8').on('data', (text) => {
    ended.err += text
  })
  return new Promise((resolve) => child.once('close', (code) => resolve({ code, ...ended })))
}

function rows(path: string) {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

test('two services that run, in turns: a table, and a row per workload', async () => {
  const options = { rules: { 'load.yaml': rulesFor('load') }, env: { GRPC_FRONTEND: 'http2' } }
  const [one, two] = await Promise.all([startService(options), startService(options)])
  const given = [one, two].map((each) => `grpc://${each.address('gRPC')},server=${each.child.pid}`)
  const path = join(folder, 'rows.jsonl')
  const workloads = ['--workload', '2x2,open:300', '--rounds', '2', '--out', path]
  const { code, out, err } = await compare('--a', given[0], '--b', given[1], ...SHORT, ...workloads)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(/2x2\n +server us +[\d.]+ +[\d.]+ +[\d.]+ x \([\d.]+\.\.[\d.]+\)\n +decisions\/s/)
  expect(out).toMatch(/open:300\n(.*\n)* +lag p99 ms/)
  const [closed, open] = rows(path)
  expect(closed).toMatchObject({
    workload: '2x2',
    keys: 'uniform:99',
    descriptors: 2,
    rounds: 2,
    windowMs: 200,
  })
  expect(closed.machine).toMatchObject({ node: process.version })
  expect(closed.commit).toMatch(/^[0-9a-f]{7,}\+?$|^$/)
  const { server } = closed.ratios
  expect(server.min).toBeLessThanOrEqual(server.median)
  expect(server.median).toBeLessThanOrEqual(server.max)
  expect(server.median).toBeGreaterThan(0.1)
  expect(open.a.ratePerSec.median).toBeCloseTo(300, -1)
})

test('it starts both itself, with a Redis each, and ends them all', async () => {
  const program = join(folder, 'reference')
  writeFileSync(program, `#!/bin/sh\nexec "${process.execPath}" "${SLUICE}" serve\n`, { mode: 0o755 })
  const { code, out, err } = await compare(
    '--reference',
    program,
    ...SHORT,
    '--workload',
    '2x2',
    '--rounds',
    '1',
  )
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(/2x2\n +server us .* x .*\n +redis us .* x /)
  const pids = [...out.matchAll(/(?:server|redis)=(\d+)/g)].map(([, pid]) => Number(pid))
  expect(pids).toHaveLength(4)
  for (const pid of pids) expect(() => process.kill(pid, 0)).toThrow('ESRCH')
})

// biome-ignore format: a table
const mistakes: [string[], number, string][] = [
  [[],                                          2, ''],
  [['--a', 'grpc://x'],                         2, 'compare: npm run compare: what to compare is unclear. Give --a and --b, or --reference. [COMPARE_USAGE]\n'],
  [['--a', 'x', '--b', 'grpc://x'],             2, 'compare: --a: "x" is not understood. Write grpc://host:port,server=pid,redis=pid. [COMPARE_USAGE]\n'],
  [['--reference', 'x', '--workload', '4'],     2, 'compare: --workload: "4" is not understood. Write 4x16, open:20000 or open:50%. [COMPARE_USAGE]\n'],
  [['--reference', 'x', '--over', 'tcp'],       2, 'compare: --over: "tcp" is not understood. Write grpc or json. [COMPARE_USAGE]\n'],
  [['--nonsense'],                              2, 'compare: --nonsense: is no flag of this command. See --help. [COMPARE_USAGE]\n'],
]

test('mistakes on the command line: what, where, and what is right', async () => {
  const ended = await Promise.all(mistakes.map(([args]) => compare(...args)))
  expect(ended.map(({ code, err }) => [code, err])).toEqual(mistakes.map(([, code, err]) => [code, err]))
})

test('a reference that does not start: what it said, and the others are ended', async () => {
  const program = join(folder, 'broken')
  writeFileSync(program, '#!/bin/sh\necho no such luck >&2\nexit 3\n', { mode: 0o755 })
  const { code, err } = await compare('--reference', program, '--workload', '2x2')
  expect(code).toBe(1)
  expect(err).toContain('did not start. It said:\nno such luck')
})
