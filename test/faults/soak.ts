/**
 * Soak test: the service under steady load with one fault after the other. Are memory, descriptors, threads and event loop delay flat,
 * and is the store used again within 2 s after each fault? Prints the verdict, draws a picture. Exit code 0 if it passed,
 * 1 if the service failed, 2 if the machine was too busy to judge what depends on time.
 *
 *     $ npm run soak                                          a fault of 10 s each minute, at 70 % of the rate measured just before
 *     $ npm run soak -- --minutes 5 --every 15       a fault of 2.5 s each 15 s
 *     $ npm run soak -- --rate 5000 --store memcached --env REDIS_OPERATION_TIMEOUT=50ms
 *
 *     flag        default                     meaning
 *     --minutes   30                          of load, the measurement of the rate not included
 *     --every     60                          seconds from fault to fault; a fault lasts a sixth of that
 *     --rate      0.7 of what is measured     calls per second
 *     --store     redis                       redis (and a second one for limits per second) or memcached
 *     --workers   2
 *     --env       none                        setting of the service, NAME=value; may be repeated
 *     --picture   docs/pictures/soak.svg      where the picture is written
 *     --json      none                        where all samples are written
 *
 * The rate measured is the highest of ten at which all calls are counted by the store with a p99 of 20 ms, on the same machine, which
 * service, stores and this generator share.
 */
import { writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { parseArgs } from 'node:util'
import { drawSoak } from './soak/picture.ts'
import { BusyMachineError, runSoak } from './soak/run.ts'
import { formatVerdict, judge } from './soak/verdict.ts'

const PICTURE = fileURLToPath(new URL('../../docs/pictures/soak.svg', import.meta.url))
const FAULT_SHARE = 1 / 6 // of the time between two faults

const { values: flags } = parseArgs({
  options: {
    minutes: { type: 'string', default: '30' },
    every: { type: 'string', default: '60' },
    rate: { type: 'string', default: '0' },
    store: { type: 'string', default: 'redis' },
    workers: { type: 'string', default: '2' },
    env: { type: 'string', multiple: true, default: [] },
    picture: { type: 'string', default: PICTURE },
    json: { type: 'string', default: '' },
  },
})
const { store } = flags
if (store !== 'redis' && store !== 'memcached') throw new Error(`--store ${store}: write redis or memcached`)
const everyMs = 1_000 * Number(flags.every)

const result = await runSoak({
  store,
  workers: Number(flags.workers),
  ratePerSec: Number(flags.rate),
  share: 0.7,
  measureMs: 3_000,
  sampleMs: 1_000,
  rules: 2_000,
  connections: 4,
  minuteKeys: 'zipf:100000',
  secondKeys: 'uniform:1000000',
  pace: { kind: 'timed', totalMs: 60_000 * Number(flags.minutes), everyMs, faultMs: FAULT_SHARE * everyMs },
  env: Object.fromEntries(flags.env.map((pair) => pair.split('=', 2))),
  report: (line) => console.error(line),
}).catch((error: unknown): never => {
  if (!(error instanceof BusyMachineError)) throw error
  console.error(error.message)
  process.exit(2)
})
const verdict = judge(result)
writeFileSync(flags.picture, drawSoak(result, verdict))
if (flags.json !== '') writeFileSync(flags.json, JSON.stringify(result))
process.stdout.write(formatVerdict(result, verdict))
for (const [cause, count] of Object.entries(result.errors)) console.log(`${count} x ${cause}`)
if (verdict.problems.length > 0) process.exitCode = 1
else if (verdict.unjudged.length > 0) process.exitCode = 2
