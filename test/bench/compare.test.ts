/** The comparison of two services. A program that starts Sluice takes the place of the reference. */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { main } from '../../bench/compare/main.ts'
import { formatRules } from '../../bench/load/requests.ts'
import { startService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const SLUICE = fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const SHORT = ['--window', '60s', '--calls', '100', '--warmup', '0s', '--keys', 'uniform:99']
const TEST_MS_MAX = 120_000

const folder = makeTemporaryFolder()

async function compare(...args: string[]): Promise<{ code: number; out: string; err: string }> {
  const printed = { out: '', err: '' }
  const stdout = {
    write: (text: string) => {
      printed.out += text
    },
  }
  const stderr = {
    write: (text: string) => {
      printed.err += text
    },
  }
  const code = await main(args, { stdout, stderr })
  return { code, ...printed }
}

function readRows(path: string) {
  return readFileSync(path, 'utf8')
    .trimEnd()
    .split('\n')
    .map((line) => JSON.parse(line))
}

test('two running services in alternating windows: a table, and a row per workload', {
  timeout: TEST_MS_MAX,
}, async () => {
  const options = { rules: { 'load.yaml': formatRules('load') }, env: { GRPC_FRONTEND: 'http2' } }
  const [one, two] = await Promise.all([startService(options), startService(options)])
  const services = [one, two].map((each) => `grpc://${each.address('gRPC')},server=${each.child.pid}`)
  const path = join(folder, 'rows.jsonl')
  const workloads = ['--workload', '2x2,open:300', '--rounds', '2', '--out', path]
  const { code, out, err } = await compare('--a', services[0], '--b', services[1], ...SHORT, ...workloads)
  expect({ code, err }).toEqual({ code: 0, err: '' })
  expect(out).toMatch(/2x2\n +server us +[\d.]+ +[\d.]+ +[\d.]+ x \([\d.]+\.\.[\d.]+\)\n +decisions\/s/)
  expect(out).toMatch(/open:300\n(.*\n)* +lag p99 ms/)
  const [closed, open] = readRows(path)
  expect(closed).toMatchObject({
    workload: '2x2',
    keys: 'uniform:99',
    descriptors: 2,
    rounds: 2,
    windowMs: 60_000,
  })
  expect(closed.machine).toMatchObject({ node: process.version })
  expect(closed.commit).toMatch(/^[0-9a-f]{7,}\+?$|^$/)
  const { server } = closed.ratios
  expect(server.min).toBeLessThanOrEqual(server.median)
  expect(server.median).toBeLessThanOrEqual(server.max)
  expect(server.min).toBeGreaterThan(0)
  expect(open.a.lagP99Ms.median).toBeGreaterThanOrEqual(0)
})

test('--reference starts both services with a Redis each, and ends them all', {
  timeout: TEST_MS_MAX,
}, async () => {
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

test('mistakes on the command line: what, where, and what is valid', async () => {
  const ended = await Promise.all(mistakes.map(([args]) => compare(...args)))
  expect(ended.map(({ code, err }) => [code, err])).toEqual(mistakes.map(([, code, err]) => [code, err]))
})

test('a reference that does not start: its log is printed, and the other processes are ended', async () => {
  const program = join(folder, 'broken')
  writeFileSync(program, '#!/bin/sh\necho no such luck >&2\nexit 3\n', { mode: 0o755 })
  const { code, err } = await compare('--reference', program, '--workload', '2x2')
  expect(code).toBe(1)
  expect(err).toContain('did not start. Its log:\nno such luck')
})
