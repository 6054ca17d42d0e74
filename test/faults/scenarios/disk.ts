/** The disk of the monitor is full, or read-only at its start. Its decisions go on, its pages too. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Database } from '../../../monitor/storage/database.ts'
import { findDetection } from '../../../monitor/storage/detections.ts'
import { databasePath } from '../../../monitor/storage/path.ts'
import { eventually } from '../../helpers/eventually.ts'
import { MODELS, startFakeRelay } from '../../helpers/fake-relays.ts'
import { MONITOR_LISTENS, monitorEnv } from '../../helpers/monitor.ts'
import { mountSkipReason } from '../../helpers/mounts.ts'
import { startRedis } from '../../helpers/redis.ts'
import type { RunningService } from '../../helpers/service.ts'
import { soonProbed } from '../../helpers/slugs.ts'
import { startSmallDisk } from '../../helpers/small-disk.ts'
import { readRedis } from '../redis-faults.ts'
import { HARMLESS, type LoadScenario, type Parts, type Scenario, type Stage, underLoad } from '../scenario.ts'

const ROUNDS_MAX = 50 // each submits another address
const SETTLE_MS = 300 // in which a write that was under way ends

const CANNOT_WRITE = 'the monitor cannot write'
const CAN_WRITE = 'the monitor can write'

async function startMonitor() {
  const [redis, relay] = await Promise.all([startRedis(), startFakeRelay('open')])
  const disk = startSmallDisk()
  const slug = soonProbed('relay', 60)
  const site = `{ slug: ${slug}, name: A relay, url: "http://relay.example.com", models_claimed: [${MODELS[0]}] }`
  writeFileSync(join(disk.folder, 'catalogue.yaml'), `version: 1\nsites:\n  - ${site}\n`)
  const names = ['relay', ...Array.from({ length: ROUNDS_MAX }, (_, i) => `other-${i}`)]
  const hosts = Object.fromEntries(names.map((name) => [`${name}.example.com`, relay.port]))
  const parts = {
    env: { REDIS_URL: redis.address, ...monitorEnv(disk.folder, hosts) },
    read: (keys: readonly string[]) => readRedis(redis, keys),
    stop: async () => {
      await Promise.all([redis.stop(), relay.close()])
      await disk.stop()
    },
  }
  return { parts, disk, slug }
}

const countLines = ({ log }: RunningService, text: string) => log.split(text).length - 1

function getUrl({ log }: RunningService): string {
  const port =
    /the monitor listens again on port (\d+)/.exec(log) ??
    /Listening for the monitor on '[^']*:(\d+)'/.exec(log)
  return `http://127.0.0.1:${port![1]}/api/v1`
}

async function expectListed(service: RunningService, slug: string): Promise<void> {
  const response = await fetch(`${getUrl(service)}/sites`)
  const text = await response.text()
  if (response.status !== 200 || !text.includes(slug)) throw new Error(`/sites: ${response.status} ${text}`)
}

async function expectGauge(service: RunningService, name: string, value: number): Promise<void> {
  const found = (await service.stats())[`sluice.monitor.${name}`]
  if (found !== value) throw new Error(`sluice.monitor.${name} is ${found}, not ${value}`)
}

/** A broken promise of the monitor is reported, like one of decisions. */
async function expectSoon({ history }: Stage, check: () => Promise<void>): Promise<void> {
  await eventually(check).catch((error: Error) => history.report('normal', null, error.message))
}

async function startFull(): Promise<Parts> {
  const { parts, disk, slug } = await startMonitor()
  const waiting: string[] = [] // detections that were accepted while the disk was full
  const begin = async (stage: Stage) => {
    const { service, round } = stage
    await service.logged(MONITOR_LISTENS)
    await expectSoon(stage, () => expectListed(service, slug))
    disk.fill()
    await sleep(SETTLE_MS)
    disk.fill()
    const response = await fetch(`${getUrl(service)}/detections`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url: `http://other-${round % ROUNDS_MAX}.example.com` }),
    })
    const { id } = (await response.json()) as { id?: string }
    if (id === undefined)
      stage.history.report('effect', null, `no detection was accepted: ${response.status}`)
    else waiting.push(id)
    await expectSoon(stage, async () => {
      if (countLines(service, CANNOT_WRITE) <= round) throw new Error(`not logged: ${CANNOT_WRITE}`)
      await expectGauge(service, 'store_failing', 1)
      await expectListed(service, slug)
    })
  }
  const end = async (stage: Stage) => {
    const { service, history, round } = stage
    disk.free()
    await expectSoon(stage, async () => {
      if (countLines(service, CAN_WRITE) <= round) throw new Error(`not logged: ${CAN_WRITE}`)
      await expectGauge(service, 'store_failing', 0)
      await expectGauge(service, 'store_queue', 0)
    })
    if (countLines(service, CANNOT_WRITE) > round + 1)
      history.report('normal', null, `"${CANNOT_WRITE}" was logged more than once`)
  }
  const check = ({ history }: Stage) => {
    const database = new Database(databasePath(disk.folder))
    const { integrity_check: found } = database.get<{ integrity_check: string }>('PRAGMA integrity_check')!
    for (const id of waiting) {
      const row = findDetection(database, id)
      if (row?.status !== 'done' && row?.status !== 'failed')
        history.report(
          'normal',
          null,
          `the result of detection ${id} was not written: ${row?.status ?? 'no row'}`,
        )
    }
    database.close()
    if (found !== 'ok') history.report('normal', null, `the database is damaged: ${found}`)
  }
  return { ...parts, begin, end, check }
}

/** The disk is read-only until the fault ends. */
async function startReadOnly(): Promise<Parts> {
  const { parts, disk, slug } = await startMonitor()
  disk.setReadOnly()
  const begin = async (stage: Stage) => {
    const { service } = stage
    await service.logged('the monitor is down')
    await expectSoon(stage, () => expectGauge(service, 'up', 0))
  }
  const end = async (stage: Stage) => {
    const { service, history } = stage
    disk.setWritable()
    await service.logged('the monitor listens again')
    await expectSoon(stage, () => expectListed(service, slug))
    if (countLines(service, 'the monitor is down') > 1)
      history.report('normal', null, 'that the monitor is down was logged more than once')
  }
  return { ...parts, begin, end }
}

const PROMISE = 'no decision is affected; it is logged once; pages and API serve what they have'

const SCENARIOS: LoadScenario[] = [
  {
    name: 'disk-full',
    fault: "the monitor's disk is full, then has room again",
    promise: `${PROMISE}; results wait and are written then, the database is whole`,
    ...HARMLESS,
    rssGrowthMax: 400 * 2 ** 20, // threads of the monitor
    skipReason: mountSkipReason,
    start: startFull,
  },
  {
    name: 'disk-read-only',
    fault: "the monitor's disk is read-only at its start, then writable",
    promise: `no decision is affected; it is logged once; the monitor starts when it can write, without a restart`,
    ...HARMLESS,
    happensOnce: true,
    rssGrowthMax: 400 * 2 ** 20,
    skipReason: mountSkipReason,
    start: startReadOnly,
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
