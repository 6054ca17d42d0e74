/** Redis behind Sentinels: a master that fails, Sentinels that fail, and one that names another master. */
import { eventually } from '../../helpers/eventually.ts'
import { pauseRedis } from '../../helpers/pause.ts'
import { startRedis } from '../../helpers/redis.ts'
import { type SentinelSet, startSentinel } from '../../helpers/redis-sentinel.ts'
import { countConnectionsTo } from '../connections.ts'
import { readRedis } from '../redis-faults.ts'
import { HARMLESS, type LoadScenario, type Parts, type Scenario, type Stage, underLoad } from '../scenario.ts'

const LOOK_MS = 20 // between two looks at the connections of the service

const toEnv = (url: string) => ({ REDIS_TYPE: 'SENTINEL', REDIS_URL: url })

async function pauseAll(set: SentinelSet): Promise<() => void> {
  const paused = await Promise.all(set.sentinels.map(pauseRedis))
  return () => {
    for (const { resume } of paused) resume()
  }
}

/** The parts of a set of which `begin` takes something away. */
function createParts(set: SentinelSet, begin: Parts['begin'], end: Parts['end']): Parts {
  return {
    env: toEnv(set.url),
    begin,
    end,
    read: async (keys) => readRedis(await set.master(), keys),
    stop: () => set.stop(),
  }
}

async function startKilled(): Promise<Parts> {
  const set = await startSentinel()
  let dead = set.servers[0]
  const begin = async () => {
    dead = await set.master()
    const switched = set.switchedFrom(dead)
    await dead.stop()
    await switched
  }
  return createParts(set, begin, () => set.revive(dead))
}

/**
 * The old master continues as a master for a moment, until the Sentinels make it a replica. Nothing is sent to it after the switch, since
 * the service then has no connection to it: from a while after the switch until the end of the round.
 */
async function startStopped(): Promise<Parts> {
  const set = await startSentinel()
  let resume = () => {}
  let timer: NodeJS.Timeout | undefined
  const begin = async ({ service, history }: Stage) => {
    clearInterval(timer)
    const old = await set.master()
    const switched = set.switchedFrom(old)
    const pid = service.child.pid!
    if (countConnectionsTo(pid, old.port) === 0)
      history.report('effect', null, 'the service had no connection to the master')
    resume = (await pauseRedis(old)).resume
    await switched
    await eventually(() => {
      if (countConnectionsTo(pid, old.port) > 0) throw new Error('it is connected to the old master')
    }).catch((error: Error) => history.report('normal', null, `after the switch, ${error.message}`))
    timer = setInterval(() => {
      if (countConnectionsTo(pid, old.port) === 0) return
      history.report('normal', null, 'the service has connected to the old master again')
    }, LOOK_MS)
  }
  const end = async () => {
    resume()
    await set.settled()
  }
  const parts = createParts(set, begin, end)
  return {
    ...parts,
    check: () => clearInterval(timer),
    stop: async () => {
      clearInterval(timer)
      resume()
      await parts.stop()
    },
  }
}

async function startSilent(): Promise<Parts> {
  const set = await startSentinel()
  let resume = () => {}
  const begin = async () => {
    resume = await pauseAll(set)
  }
  return createParts(set, begin, () => resume())
}

/** No Sentinel replies when the connection to the master is lost. */
async function startLost(): Promise<Parts> {
  const set = await startSentinel()
  let resume = () => {}
  const begin = async () => {
    const master = await set.master()
    resume = await pauseAll(set)
    await master.run('CLIENT', 'KILL', 'TYPE', 'normal', 'SKIPME', 'yes')
  }
  return createParts(set, begin, () => resume())
}

/** A fourth Sentinel has always watched another master, at the epoch of the others. */
async function startStray(): Promise<Parts> {
  const [set, other] = await Promise.all([startSentinel(), startRedis()])
  const stray = await startRedis({ sentinel: `sentinel monitor mymaster 127.0.0.1 ${other.port} 1\n` })
  const [name, ...sentinels] = set.url.split(',')
  return {
    ...createParts(
      set,
      () => {}, // it has always been there
      () => {},
    ),
    env: toEnv([name, stray.address, ...sentinels].join(',')),
    check: async ({ history }) => {
      const keys = await other.run('DBSIZE')
      if (keys !== 0) history.report('once', null, `${keys} counters are at the master of the stray Sentinel`)
    },
    stop: async () => void (await Promise.all([set.stop(), other.stop(), stray.stop()])),
  }
}

const SCENARIOS: LoadScenario[] = [
  {
    name: 'sentinel-master-killed',
    fault: 'the master is killed, a replica replaces it',
    promise:
      'the policies answer until the Sentinels name the new master; hits that were not replicated are lost, none is counted twice',
    losesCounts: true,
    history: { losesSome: true },
    start: startKilled,
  },
  {
    name: 'sentinel-master-stopped',
    fault: 'the master is stopped (SIGSTOP), replaced, and continues',
    promise: 'the same; nothing is sent to the old master after the switch',
    losesCounts: true,
    history: { losesSome: true },
    start: startStopped,
  },
  {
    name: 'sentinel-silent',
    fault: 'no Sentinel replies, the master does',
    promise: 'no call is degraded, every counter is exact',
    ...HARMLESS,
    start: startSilent,
  },
  {
    name: 'sentinel-silent-connection-lost',
    fault: 'no Sentinel replies and the connections to the master are lost',
    promise: 'the policies answer until a Sentinel replies again',
    start: startLost,
  },
  {
    name: 'sentinel-stray',
    fault: 'one of four Sentinels names another master, at the same epoch',
    promise: 'no call is degraded, and no hit is counted there',
    ...HARMLESS,
    start: startStray,
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
