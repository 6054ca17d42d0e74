/**
 * The faults of the soak test, in the order of their rotation. Each begins, has an effect that can be observed, and ends; what it leaves
 * behind is an error of the service.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import type { Connection, Listener } from '../../../bench/load/connection.ts'
import { dial } from '../../../bench/load/dial.ts'
import { Loop } from '../../../bench/load/loop.ts'
import { parseOptions } from '../../../bench/load/options.ts'
import { Recorder } from '../../../bench/load/recorder.ts'
import type { RunningService } from '../../helpers/service.ts'
import type { Store } from './stores.ts'

export interface Fault {
  name: string
  /** It frees what the service has kept, which would hide a leak: it comes in the first rotation only, which is the warm-up. */
  isRestart?: boolean
  begin(): Promise<unknown>
  /** Its effect has been observed since it began. May be asked after its end, too. */
  isSeen(): Promise<boolean>
  end(): Promise<unknown>
  /** After its end: whatever it changed is as before. Whether calls are counted again is checked for all faults. */
  isOver?(): Promise<boolean>
}

/** What faults act on and observe. */
export interface FaultContext {
  service: RunningService
  store: Store
  perSecond: Store | null // for limits per second; null = `store` has them too
  workers: number
  rules: number // of the file that is reloaded
  /** Answers by a policy and errors so far. */
  countOthers(): number
}

const SLOW_STOPPED_MS = 40
const SLOW_RUNNING_MS = 10
const RELOAD_INTERVAL_MS = 500
const VANISH_INTERVAL_MS = 200
const VANISH_CONNECTIONS = 20
const VANISH_CALLS = 50 // in flight when their connection goes
const BURST_ANSWERS_MIN = 100
const BROKEN_RULES =
  'domain: version\ndescriptors:\n  - { key: a, rate_limit: { unit: fortnight, requests_per_unit: 1 } }\n'
const LOADED = 'ratelimit.service.config_load_success'
const NOT_LOADED = 'ratelimit.service.config_load_error'

export function createFaults(context: FaultContext): Fault[] {
  const { store, perSecond } = context
  const faults = [
    onStore(context, `${store.name} killed`, store.kill, store.start),
    onStore(context, `${store.name} stopped`, store.pause, store.resume),
    slowStore(store),
    rulesReloaded(context),
    rulesBroken(context),
    clientsVanish(context),
    burst(context),
    workerCrashes(context),
  ]
  if (store.cut) faults.push(connectionsCut(context, store.cut))
  if (perSecond) faults.push(onStore(context, 'Redis per second killed', perSecond.kill, perSecond.start))
  return faults
}

/** Its effect are answers that the store did not count. */
function onStore(
  { countOthers }: FaultContext,
  name: string,
  begin: () => Promise<void>,
  end: () => Promise<void>,
): Fault {
  let before = 0
  return {
    name,
    begin() {
      before = countOthers()
      return begin()
    },
    isSeen: async () => countOthers() > before,
    end,
  }
}

/** Runs a fifth of the time, so replies are up to SLOW_STOPPED_MS late. */
function slowStore({ name, pause, resume }: Store): Fault {
  let stop = async () => {}
  let pauses = 0
  return {
    name: `${name} slow`,
    async begin() {
      pauses = 0
      stop = repeat(SLOW_RUNNING_MS, async (sleep) => {
        await pause()
        await sleep(SLOW_STOPPED_MS)
        await resume()
        pauses++
      })
    },
    isSeen: async () => pauses > 2,
    end: () => stop(),
  }
}

function connectionsCut({ service }: FaultContext, cut: () => Promise<number>): Fault {
  let count = 0
  return {
    name: 'connections to the store cut',
    async begin() {
      count = await cut()
    },
    isSeen: async () => count > 0,
    async end() {
      if (service.child.exitCode !== null) throw new Error('the service has ended')
    },
  }
}

function rulesReloaded({ service, rules }: FaultContext): Fault {
  const writer = new RulesWriter(service, rules)
  let before = 0
  let stop = async () => {}
  return {
    name: 'rules reloaded',
    async begin() {
      before = await writer.count(LOADED)
      stop = repeat(RELOAD_INTERVAL_MS, async () => writer.write())
    },
    isSeen: async () => (await writer.count(LOADED)) > before,
    end: () => stop(),
  }
}

function rulesBroken({ service, rules }: FaultContext): Fault {
  const writer = new RulesWriter(service, rules)
  let before = 0
  let loadedBefore = 0
  return {
    name: 'rules broken',
    async begin() {
      before = await writer.count(NOT_LOADED)
      writer.writeText(BROKEN_RULES)
    },
    isSeen: async () => (await writer.count(NOT_LOADED)) > before,
    async end() {
      loadedBefore = await writer.count(LOADED)
      writer.write()
    },
    isOver: async () => (await writer.count(LOADED)) > loadedBefore,
  }
}

let version = 0

/** Writes a file of rules that no call uses; each version differs. */
class RulesWriter {
  private readonly service: RunningService
  private readonly rules: number

  constructor(service: RunningService, rules: number) {
    this.service = service
    this.rules = rules
  }

  write(): void {
    version++
    const limit = `rate_limit: { unit: hour, requests_per_unit: ${version} }`
    const lines = Array.from({ length: this.rules }, (_, i) => `  - { key: k${i}, ${limit} }\n`)
    this.writeText(`domain: version\ndescriptors:\n${lines.join('')}`)
  }

  writeText(text: string): void {
    writeFileSync(join(this.service.rulesDirectory, 'version.yaml'), text)
  }

  async count(statistic: string): Promise<number> {
    return (await this.service.stats())[statistic] ?? 0
  }
}

/** Connections with calls in flight that are closed without waiting for the answers, again and again. */
function clientsVanish({ service }: FaultContext): Fault {
  let vanished = 0
  let stop = async () => {}
  const { keys, seed, ...options } = parseOptions([
    `grpc://${service.address('gRPC')}`,
    ...['--domain', 'soak_local', '--descriptors', '1', '--entries', '1'],
    ...['--keys', 'uniform:1000000', '--streams', String(VANISH_CALLS)],
  ])
  const dialOptions = { ...options, shape: { ...options, keys }, nextKey: keys.start(seed) }
  return {
    name: 'clients vanish',
    async begin() {
      vanished = 0
      stop = repeat(VANISH_INTERVAL_MS, async () => {
        await Promise.all(
          Array.from({ length: VANISH_CONNECTIONS }, async () => {
            const opened = Promise.withResolvers<void>()
            const connection: Connection = await dial(dialOptions, createSilentListener(opened.resolve))
            await opened.promise
            while (connection.isOpen && connection.free > 0) connection.start(performance.now())
            connection.flush()
            connection.close()
            vanished++
          }),
        )
      })
    },
    isSeen: async () => vanished >= VANISH_CONNECTIONS,
    end: () => stop(),
  }
}

/** Its answers are of no interest. `onOpen`: the server's SETTINGS have arrived, or the connection has ended. */
function createSilentListener(onOpen: () => void): Listener {
  return {
    onResponse() {},
    onFailure() {},
    onRefused() {},
    onReadEnd: onOpen,
    onClosing: onOpen,
  }
}

/** As many calls as the service can answer. */
function burst({ service }: FaultContext): Fault {
  const { keys, seed, ...options } = parseOptions([
    `grpc://${service.address('gRPC')}`,
    ...[
      '--domain',
      'soak_local',
      '--descriptors',
      '1',
      '--entries',
      '1',
      '--keys',
      'uniform:1000000',
      '--streams',
      '64',
    ],
  ])
  let recorder = new Recorder(false)
  let loop: Loop | null = null
  return {
    name: 'burst',
    async begin() {
      recorder = new Recorder(false)
      loop = new Loop({ ...options, shape: { ...options, keys }, nextKey: keys.start(seed) }, recorder)
      await loop.start()
    },
    isSeen: async () => recorder.decisions >= BURST_ANSWERS_MIN,
    end: async () => loop?.stop(),
  }
}

function workerCrashes({ service, workers }: FaultContext): Fault {
  let before = 0
  let crashes = 0
  const countEnds = () => service.log.split(/worker \d+ ended/).length - 1
  return {
    name: 'worker crash',
    isRestart: true,
    async begin() {
      before = countEnds()
      service.child.send({ crashWorker: crashes++ % workers })
    },
    isSeen: async () => countEnds() > before,
    async end() {},
    isOver: async () => (await fetch(`${service.http}/healthcheck`)).status === 200,
  }
}

/** Repeats `act` with pauses. The result ends that: it resolves when the last `act` has, and rejects with the first error. */
function repeat(
  intervalMs: number,
  act: (sleep: (ms: number) => Promise<void>) => Promise<void>,
): () => Promise<void> {
  let isRunning = true
  const sleep = (ms: number) => new Promise<void>((resolve) => setTimeout(resolve, ms))
  const run = async () => {
    while (isRunning) {
      await act(sleep)
      if (isRunning) await sleep(intervalMs)
    }
  }
  const done = run()
  done.catch(() => {}) // reported at the end
  return () => {
    isRunning = false
    return done
  }
}
