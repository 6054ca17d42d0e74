/**
 * What does it cost the running service to load 100,000 rules?
 *   floor     the longest latency of a call while nothing is loaded, and the memory with 2 rules
 *   now       the longest latency while the rules load under the same load, the time until they are in force, and the memory
 *             before, at its peak and after the thread that loaded them has ended
 * Worth changing when `now` is more than 20 ms above `floor`, or loading takes more than 3 s.
 * Open loop with 1,000 calls per second: latency counts from when a call was due. Medians of several rounds, idle and loading
 * alternate. Pauses of the machine are in both.
 */
import { execFile } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { promisify } from 'node:util'
import { postJson, spawnService } from '../test/helpers/service.ts'
import { formatRules } from './load/requests.ts'
import type { Result } from './load/run.ts'
import { formatSpread, LISTENING, START_MS_MAX } from './serving.ts'
import { size } from './size.ts'

const LOAD = fileURLToPath(new URL('load/main.ts', import.meta.url))
const RULES = size({ small: 1_000, full: 100_000 })
const ROUNDS = size({ small: 1, full: 7 })
const WARMUP_WINDOWS = size({ small: 0, full: 1 })
const WARMUP_MS = size({ small: 0, full: 500 }) // of each window
const WINDOW_MS = size({ small: 300, full: 6_000 }) // at full size longer than a load takes
const START_MS = size({ small: 0, full: 1_500 }) // until the generator has started and its warm-up is over
const IDLE_MS = size({ small: 0, full: 3_000 }) // longer than an idle job thread lives
const POLL_MS = 10 // between checks whether the rules are in force

const service = spawnService({ rules: { 'load.yaml': formatRules('load') }, env: { BACKEND_TYPE: 'memory' } })
try {
  await service.logged(LISTENING, START_MS_MAX)
  await compareRounds()
} finally {
  await service.stop()
}

async function compareRounds(): Promise<void> {
  const idle: number[] = []
  const loading: number[] = []
  const loadMs: number[] = []
  for (let i = 0; i < WARMUP_WINDOWS; i++) await measureLongestMs()
  const before = readMemoryMib('VmRSS')
  for (let round = 1; round <= ROUNDS; round++) {
    idle.push(await measureLongestMs())
    const longest = measureLongestMs()
    await sleep(START_MS)
    loadMs.push(await load(round))
    loading.push(await longest)
  }
  const peak = readMemoryMib('VmHWM')
  await sleep(IDLE_MS)
  const after = readMemoryMib('VmRSS')
  printRow('floor idle', `longest latency ${formatSpread(idle, 1)} ms`)
  printRow(
    `now   loading ${RULES.toLocaleString('en')} rules`,
    `longest latency ${formatSpread(loading, 1)} ms`,
  )
  printRow('now   from file to force', `${formatSpread(loadMs, 1)} ms`)
  printRow('now   memory', `before ${before}, peak ${peak}, after ${after} MiB`)
}

/** The longest latency of a window under load. Another process, so that the polling here does not disturb it. */
async function measureLongestMs(): Promise<number> {
  const shape = ['--rate', '1000', '--connections', '4', '--streams', '100', '--warmup', `${WARMUP_MS}ms`]
  const time = ['--duration', `${WINDOW_MS}ms`, '--json', '-']
  const args = [LOAD, `grpc://${service.address('gRPC')}`, ...shape, ...time]
  const { stdout } = await promisify(execFile)(process.execPath, args)
  return (JSON.parse(stdout) as Result).latencyMs.max
}

/** Writes new rules and polls until they are in force. Returns how long that took, in ms. */
async function load(round: number): Promise<number> {
  const text = formatManyRules(round)
  const startMs = performance.now()
  writeFileSync(join(service.rulesDirectory, 'many.yaml'), text)
  const request = { domain: 'many', descriptors: [{ entries: [{ key: 'user', value: 'u-0' }] }] }
  while (!(await postJson(service, request)).text.includes(`"requestsPerUnit":${round},`))
    await sleep(POLL_MS)
  return performance.now() - startMs
}

/** The limit of the first rule is the round. */
function formatManyRules(round: number): string {
  let text = 'domain: many\ndescriptors:\n'
  for (let i = 0; i < RULES; i++) {
    const requests = i === 0 ? round : i
    text += `  - key: user\n    value: u-${i}\n    rate_limit:\n      unit: day\n      requests_per_unit: ${requests}\n`
  }
  return text
}

function readMemoryMib(field: 'VmRSS' | 'VmHWM'): number {
  const status = readFileSync(`/proc/${service.child.pid}/status`, 'utf8')
  return Math.round(Number(new RegExp(`^${field}:\\s+(\\d+) kB$`, 'm').exec(status)![1]) / 1_024)
}

function printRow(name: string, text: string): void {
  console.log(`reload  ${name.padEnd(28)} ${text}`)
}
