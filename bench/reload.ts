/**
 * What does it cost the running service to load 100,000 rules?
 *   floor     the longest latency of a call while nothing is loaded, and the memory with 2 rules
 *   now       the longest while the rules load under the same load, how long until they are in force, and the memory
 *             before, at its peak and after: given back when the thread that loaded them has ended
 * Worth changing when `delay` is more than 20 ms above `floor`, or loading takes more than 3 s.
 * Open loop with 1,000 calls per second, so a call counts from when it was meant to be made; medians of several rounds,
 * quiet and loading in turns. The machine's own pauses are in both.
 */
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { postJson, spawnService } from '../test/helpers/service.ts'
import { rulesFor } from './load/requests.ts'
import type { Result } from './load/run.ts'
import { size } from './size.ts'

const LOAD = fileURLToPath(new URL('load/main.ts', import.meta.url))
const RULES = size({ small: 2_000, full: 100_000 })
const ROUNDS = size({ small: 1, full: 7 })
const WINDOW_MS = size({ small: 1_500, full: 6_000 }) // longer than a load takes
const START_MS = 1_500 // until the generator has started and its warm-up is over
const REST_MS = size({ small: 500, full: 3_000 }) // longer than an idle job thread lives
const ASK_MS = 10 // how often we look whether the rules are in force

const service = spawnService({ rules: { 'load.yaml': rulesFor('load') }, env: { BACKEND_TYPE: 'memory' } })
try {
  await service.logged("Listening for HTTP on '")
  await compareRounds()
} finally {
  await service.stop()
}

async function compareRounds(): Promise<void> {
  const quiet: number[] = []
  const loading: number[] = []
  const tookMs: number[] = []
  await longestMs() // warm-up
  const before = memoryMib('VmRSS')
  for (let round = 1; round <= ROUNDS; round++) {
    quiet.push(await longestMs())
    const longest = longestMs()
    await sleep(START_MS)
    tookMs.push(await load(round))
    loading.push(await longest)
  }
  const peak = memoryMib('VmHWM')
  await sleep(REST_MS)
  const after = memoryMib('VmRSS')
  row('floor quiet', `longest latency ${formatRange(quiet)} ms`)
  row(`now   loading ${RULES.toLocaleString('en')} rules`, `longest latency ${formatRange(loading)} ms`)
  row('now   from file to force', `${formatRange(tookMs)} ms`)
  row('now   memory', `before ${before}, peak ${peak}, after ${after} MiB`)
}

/** The longest latency of a window under load, from a process of its own, so that our asking does not disturb it. */
async function longestMs(): Promise<number> {
  const shape = ['--rate', '1000', '--connections', '4', '--streams', '100', '--warmup', '500ms']
  const time = ['--duration', `${WINDOW_MS}ms`, '--json', '-']
  const args = [LOAD, `grpc://${service.address('gRPC')}`, ...shape, ...time]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return (JSON.parse(stdout) as Result).latencyMs.max
}

/** Writes other rules and asks until they are in force. Yields how long that took. */
async function load(round: number): Promise<number> {
  const text = manyRules(round)
  const startedMs = performance.now()
  writeFileSync(join(service.rulesDirectory, 'many.yaml'), text)
  const question = { domain: 'many', descriptors: [{ entries: [{ key: 'user', value: 'u-0' }] }] }
  while (!(await postJson(service, question)).text.includes(`"requestsPerUnit":${round},`))
    await sleep(ASK_MS)
  return performance.now() - startedMs
}

/** The first rule tells of which round they are. */
function manyRules(round: number): string {
  let text = 'domain: many\ndescriptors:\n'
  for (let i = 0; i < RULES; i++) {
    const requests = i === 0 ? round : i
    text += `  - key: user\n    value: u-${i}\n    rate_limit:\n      unit: day\n      requests_per_unit: ${requests}\n`
  }
  return text
}

function memoryMib(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8')
  return Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) / 1_024)
}

function formatRange(values: number[]): string {
  const sorted = values.toSorted((a, b) => a - b)
  const middle = sorted[Math.floor(sorted.length / 2)]
  return `${middle.toFixed(1)} (${sorted[0].toFixed(1)} to ${sorted.at(-1)!.toFixed(1)})`
}

function row(name: string, text: string): void {
  console.log(`reload  ${name.padEnd(28)} ${text}`)
}
