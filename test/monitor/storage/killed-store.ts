/**
 * The process that store-kill.test.ts kills: writes probes without a pause and prints how many, and when.
 *
 *     node killed-store.ts <path> <first number> <probes per second>
 *
 * Probe n is of site n % 20 at minute n / 20, so hours are filled, rolled up and pruned while it runs. Each line is
 * `<number of probes so far> <epoch ms> <ms its threads have waited for a processor so far>`, written at once and not
 * through a stream that a kill would cut.
 */
import { readdirSync, readFileSync, writeSync } from 'node:fs'
import { openStore } from '../../../monitor/storage/store.ts'
import { getSlug, getTimeSec, SITES_COUNT } from './killed-probes.ts'
import { catalogueSite, probe } from './stores-plain.ts'

const [path, first, rate] = [process.argv[2], Number(process.argv[3]), Number(process.argv[4])]
const store = await openStore({ path, log: (level, text) => console.error(level, text) })
const sites = Array.from({ length: SITES_COUNT }, (_, i) => catalogueSite(`site-${i}`))
const { ids } = await store.request({ kind: 'sync-catalogue', sites, nowSec: getTimeSec(first) })
const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })

const DAY_SEC = 86_400 // the store's clock is ahead of all probes, so that none is in its future when a tick is late

let number = first
const startedAtMs = performance.now()
setInterval(() => {
  const goal = first + Math.floor(((performance.now() - startedAtMs) / 1_000) * rate)
  for (; number < goal; number++) {
    store.write({ kind: 'probe', siteId: ids[getSlug(number)], vantageId, probe: probe(getTimeSec(number)) })
  }
  writeSync(1, `${number} ${Date.now()} ${waitedMs()}\n`)
}, 5)
setInterval(() => void store.tick(getTimeSec(number) + DAY_SEC), 50)

/** Time in the run queue: Linux has it per thread, as the second number; elsewhere 0. */
function waitedMs(): number {
  let ns = 0
  try {
    for (const thread of readdirSync('/proc/self/task')) {
      ns += Number(readFileSync(`/proc/self/task/${thread}/schedstat`, 'utf8').split(' ')[1])
    }
  } catch {}
  return Math.round(ns / 1e6)
}
