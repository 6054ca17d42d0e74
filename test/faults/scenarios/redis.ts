/** A real Redis that is killed, stopped, restarted, full, evicting, or lacks commands; with the settings that change how hits are sent. */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createRules, formatRules } from '../load.ts'
import type { FaultRule } from '../model.ts'
import { startConfigured, startDurable, startKilled, startStopped, withPerSecond } from '../redis-faults.ts'
import { HARMLESS, KNOWN, type LoadScenario, type Parts, type Scenario, underLoad } from '../scenario.ts'

const KILLED = 'Redis is killed and started again without its data'
const STOPPED = 'Redis is stopped (SIGSTOP) and continued, its connections stay open'
const POLICIES_ANSWER = 'the policies answer meanwhile; limits hold before and after'
const EVICT_ROOM_BYTES = 32_768 // above what is used when the fault begins
const STOPS_INCREMENT = { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' }

const isPerSecond = ({ unit }: FaultRule) => unit === 'second'
const isPerDay = ({ unit }: FaultRule) => unit === 'day'

/** Reports if no counter was evicted. */
async function startEvicting(...options: Parameters<typeof startConfigured>): Promise<Parts> {
  const parts = await startConfigured(...options)
  return {
    ...parts,
    check: async ({ history }) => {
      const [, evicted] = /evicted_keys:(\d+)/.exec(String(await parts.run('INFO', 'stats')))!
      if (evicted === '0') history.report('effect', null, 'Redis evicted no counter')
    },
  }
}

/** The rules change between two versions all the time. */
async function startReloading(): Promise<Parts> {
  const parts = await startStopped()
  const rules = createRules(2)
  let timer: NodeJS.Timeout | undefined
  let version = 0
  return {
    ...parts,
    begin: (stage) => {
      timer ??= setInterval(() => {
        version = 1 - version
        writeFileSync(join(stage.service.rulesDirectory, 'faults.yaml'), formatRules(rules, version))
      }, 150)
      return parts.begin(stage)
    },
    check: async ({ service, history, round: rounds }) => {
      const loads = (await service.stats())['ratelimit.service.config_load_success']
      if (!(loads > 1 + rounds))
        history.report('effect', null, `the rules were loaded ${loads} times in ${rounds} rounds`)
    },
    stop: () => {
      clearInterval(timer)
      return parts.stop()
    },
  }
}

const BASIC: LoadScenario[] = [
  {
    name: 'redis-none',
    fault: 'none: the load and the checker alone',
    promise: 'every call is counted, every counter is exact',
    ...HARMLESS,
    hasNoFault: true,
    start: async () => ({ ...(await startStopped()), begin: () => {} }),
  },
  {
    name: 'redis-killed',
    fault: KILLED,
    promise: POLICIES_ANSWER,
    losesCounts: true,
    start: () => startKilled(),
  },
  {
    name: 'redis-killed-durable',
    fault: 'Redis is killed and started again with its data (appendfsync always)',
    promise: 'the policies answer meanwhile; no count is lost, none is added twice',
    start: startDurable,
  },
  {
    name: 'redis-stopped',
    fault: STOPPED,
    promise: 'calls are answered by their deadlines; late hits are counted at most once and flagged',
    start: startStopped,
  },
  {
    name: 'redis-full',
    fault: 'Redis is full and refuses writes (OOM)',
    promise: 'the policies answer meanwhile; no count is lost, none is added twice',
    ...KNOWN,
    start: () => startConfigured(['CONFIG', 'SET', 'maxmemory', '1'], ['CONFIG', 'SET', 'maxmemory', '0']),
  },
  ...['allkeys-lru', 'allkeys-random'].map(
    (policy): LoadScenario => ({
      name: `redis-evicting-${policy}`,
      fault: `Redis evicts counters (${policy})`,
      promise: 'no call is denied while there is room; an evicted counter begins at 0',
      history: { mayEvict: true },
      hasOwnEffect: true,
      start: () =>
        startEvicting(
          (usedBytes) => ['CONFIG', 'SET', 'maxmemory', String(usedBytes + EVICT_ROOM_BYTES)],
          ['CONFIG', 'SET', 'maxmemory', '0'],
          ['--maxmemory-policy', policy],
        ),
    }),
  ),
  {
    name: 'redis-renamed-incrby',
    fault: 'Redis restarts without INCRBY (rename-command)',
    promise: POLICIES_ANSWER,
    losesCounts: true,
    start: () => startKilled([], ['--rename-command', 'INCRBY', '']),
  },
  {
    name: 'redis-renamed-evalsha',
    fault: 'Redis restarts without EVALSHA, with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    promise: POLICIES_ANSWER,
    losesCounts: true,
    history: { stopsIncrement: true },
    env: STOPS_INCREMENT,
    start: () => startKilled([], ['--rename-command', 'EVALSHA', '']),
  },
]

/** Command that the user of the service may not run meanwhile, and whether hits are sent by the script. */
const ACL: readonly [command: string, isScript: boolean][] = [
  ['incrby', false],
  ['expire', false],
  ['evalsha', true],
  ['incrby', true],
  ['expire', true],
]

const DENIED = ACL.map(
  ([command, isScript]): LoadScenario => ({
    name: `redis-acl-${command}${isScript ? '-script' : ''}`,
    fault: `the ACL of Redis forbids ${command.toUpperCase()}${isScript ? ', with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT' : ''}`,
    promise: 'the policies answer meanwhile; hits that were counted nevertheless are flagged',
    ...(command === 'incrby' && !isScript && KNOWN),
    ...(isScript && { history: { stopsIncrement: true }, env: STOPS_INCREMENT }),
    start: () =>
      startConfigured(
        ['ACL', 'SETUSER', 'default', `-${command}`],
        ['ACL', 'SETUSER', 'default', `+${command}`],
      ),
  }),
)

const SCRIPT: LoadScenario[] = [
  {
    name: 'redis-script-killed',
    fault: `${KILLED}, with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`,
    promise: `${POLICIES_ANSWER}; the script is loaded again`,
    losesCounts: true,
    history: { stopsIncrement: true },
    env: STOPS_INCREMENT,
    start: () => startKilled(),
  },
  {
    name: 'redis-script-stopped',
    fault: `${STOPPED}, with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`,
    promise: 'calls are answered by their deadlines; late hits are counted at most once',
    history: { stopsIncrement: true },
    env: STOPS_INCREMENT,
    start: startStopped,
  },
  {
    name: 'redis-script-flushed',
    fault: 'Redis forgets its scripts (SCRIPT FLUSH), with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    promise: 'no call is degraded; the script is loaded again',
    ...HARMLESS,
    history: { ...HARMLESS.history, stopsIncrement: true },
    env: { ...HARMLESS.env, ...STOPS_INCREMENT },
    start: () => startConfigured(['SCRIPT', 'FLUSH'], ['SCRIPT', 'FLUSH']),
  },
]

const PER_SECOND: LoadScenario[] = [
  {
    name: 'redis-persecond-killed',
    fault: 'the Redis for limits per second is killed and started again without its data',
    promise: 'only limits per second are degraded',
    losesCounts: true,
    history: { isLost: isPerSecond, isSpared: isPerDay },
    start: async () => withPerSecond(await startKilled(), false),
  },
  {
    name: 'redis-persecond-stopped',
    fault: 'the Redis for limits per second is stopped and continued',
    promise: 'only limits per second are degraded; calls are answered by their deadlines',
    history: { isSpared: isPerDay },
    start: async () => withPerSecond(await startStopped(), false),
  },
  {
    name: 'redis-persecond-main-stopped',
    fault: 'the other Redis is stopped and continued, while limits per second have one of their own',
    promise: 'limits per second are counted meanwhile',
    history: { isSpared: isPerSecond },
    start: async () => withPerSecond(await startStopped(), true),
  },
  {
    name: 'redis-persecond-script',
    fault:
      'the Redis for limits per second is stopped and continued, with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    promise: 'calls are answered by their deadlines; late hits are counted at most once',
    history: { stopsIncrement: true, isTwoStep: true },
    env: STOPS_INCREMENT,
    start: async () => withPerSecond(await startStopped(), false),
  },
]

/** Settings that change how hits are sent or answered: name, what it is, settings, what the checker must know. */
const VARIANTS: readonly Pick<LoadScenario, 'name' | 'fault' | 'env' | 'history'>[] = [
  { name: 'metadata', fault: 'RESPONSE_DYNAMIC_METADATA', env: { RESPONSE_DYNAMIC_METADATA: 'true' } },
  {
    name: 'cache',
    fault: 'LOCAL_CACHE_SIZE_IN_BYTES',
    env: { LOCAL_CACHE_SIZE_IN_BYTES: '1000000' },
    history: { hasOverLimitCache: true },
  },
  {
    name: 'cache-script',
    fault: 'LOCAL_CACHE_SIZE_IN_BYTES and STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT',
    env: { LOCAL_CACHE_SIZE_IN_BYTES: '1000000', ...STOPS_INCREMENT },
    history: { hasOverLimitCache: true, stopsIncrement: true },
  },
  {
    name: 'pipeline',
    fault: 'the settings of pipelines, pools and polling',
    env: {
      REDIS_PIPELINE_WINDOW: '1ms',
      REDIS_PIPELINE_LIMIT: '8',
      REDIS_POOL_ON_EMPTY_BEHAVIOR: 'ERROR',
      REDIS_POOL_ON_EMPTY_WAIT_DURATION: '50ms',
      REDIS_REPLY_COALESCE_DELAY: '300us',
      REDIS_BUSY_POLL: '0',
    },
  },
  {
    name: 'decision-timeout',
    fault: 'DECISION_TIMEOUT=50ms',
    env: { DECISION_TIMEOUT: '50ms' },
    history: { deadlineMs: 50 },
  },
  { name: 'no-breaker', fault: 'STORE_BREAKER_FAILURES=0', env: { STORE_BREAKER_FAILURES: '0' } },
]

const SETTINGS = VARIANTS.map(
  ({ name, fault, ...rest }): LoadScenario => ({
    name: `redis-stopped-${name}`,
    fault: `${STOPPED}, with ${fault}`,
    promise: 'calls are answered by their deadlines; late hits are counted at most once',
    start: startStopped,
    ...rest,
  }),
)

const RELOAD: LoadScenario = {
  name: 'redis-stopped-reload',
  fault: `${STOPPED}, while the rules change every 150 ms`,
  promise: 'no answer is from two versions of the rules',
  versionsCount: 2,
  start: startReloading,
}

export const scenarios: readonly Scenario[] = [
  ...[BASIC, DENIED, SCRIPT, PER_SECOND, SETTINGS].flat(),
  RELOAD,
].map(underLoad)
