/** A proxy between the service and a real Redis delays, stalls, cuts and splits replies, or answers something else. */
import { type Decide, startDecided, startProxied } from '../redis-faults.ts'
import type { Fault } from '../resp-proxy.ts'
import { HARMLESS, type LoadScenario, type Scenario, underLoad } from '../scenario.ts'

const AT_MOST_ONCE = 'the policies answer what has no count; each hit is counted at most once'
const FAULT_SHARE = 0.02 // of the commands: several in a batch of a busy moment, and many batches without one
const REPLY_BYTES_MAX = 6 // of a count with its frame

/** About one of 50 commands that count has a fault. */
function sometimes(fault: (random: () => number) => Fault, names?: readonly string[]): Decide {
  return ({ args: [name] }, random) => {
    if (names !== undefined && !names.includes(name)) return null
    return random() < FAULT_SHARE ? fault(random) : null
  }
}

/** Half of the commands that get this reply are executed nevertheless. */
function answers(text: string): Decide {
  return sometimes((random) => (random() < 0.5 ? { reply: text } : { replaced: text }))
}

const ERRORS: Record<string, string> = {
  LOADING: '-LOADING Redis is loading the dataset in memory',
  BUSY: '-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.',
  OOM: "-OOM command not allowed when used memory > 'maxmemory'.",
  READONLY: "-READONLY You can't write against a read only replica.",
  MOVED: '-MOVED 3999 127.0.0.1:1',
  ASK: '-ASK 3999 127.0.0.1:1',
  NOSCRIPT: '-NOSCRIPT No matching script. Please use EVAL.',
  MASTERDOWN: "-MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
  NOAUTH: '-NOAUTH Authentication required.',
}

const GARBAGE = [
  '\0\x01\x02\x03', // no type
  ':12a\r\n',
  ':\r\n',
  '$5\r\nabcdefgh\r\n', // longer than its length
  '$x\r\n',
  '*3\r\n:1\r\n', // the items are those of other commands
  '+OK\r\n', // well-formed, of another type
  '$1\r\n5\r\n',
  '*1\r\n:5\r\n',
  ':-5\r\n',
  'HTTP/1.1 400 Bad Request\r\n\r\n',
]

const scenario = (
  name: string,
  fault: string,
  decide: Decide,
  rest: Partial<LoadScenario> = {},
): LoadScenario => ({
  name: `redis-proxy-${name}`,
  fault,
  promise: AT_MOST_ONCE,
  start: () => startDecided(decide),
  ...rest,
})

const NETWORK: LoadScenario[] = [
  {
    name: 'redis-proxy-slow',
    fault: 'replies take 30 ms',
    promise: 'calls wait and are counted, or are answered by their deadlines',
    slowsMs: 30,
    start: () =>
      startProxied((proxy) => {
        proxy.delayMs = 30
      }),
  },
  {
    name: 'redis-proxy-slow-breaker',
    fault: 'replies take 300 ms, with STORE_BREAKER_LATENCY=150ms and STORE_BREAKER_WINDOW=500ms',
    promise: 'the circuit breaker opens: the policies answer at once',
    env: { STORE_BREAKER_LATENCY: '150ms', STORE_BREAKER_WINDOW: '500ms' }, // a fault of 1 s is half of a window of 2 s
    opensBreaker: true,
    start: () =>
      startProxied((proxy) => {
        proxy.delayMs = 300
      }),
  },
  {
    name: 'redis-proxy-stalled',
    fault: 'no reply arrives, although Redis executes the commands',
    promise: 'calls are answered by their deadlines; their hits are flagged',
    start: () => startProxied((proxy) => proxy.stall()),
  },
  {
    name: 'redis-proxy-split',
    fault: 'replies arrive in two pieces, cut at every byte position in turn',
    promise: 'every call is counted',
    ...HARMLESS,
    start: () =>
      startProxied((proxy) => {
        proxy.isSplitting = true
      }),
  },
  scenario(
    'cut',
    'the connection ends within a reply, at every byte position',
    sometimes((random) => ({ cutAfter: Math.floor(random() * REPLY_BYTES_MAX) })),
  ),
  scenario(
    'reset',
    'the connection is reset within a reply',
    sometimes((random) => ({ cutAfter: Math.floor(random() * REPLY_BYTES_MAX), isReset: true })),
  ),
  scenario(
    'dropped',
    'the connection ends before a command is executed',
    sometimes(() => ({ drop: true })),
  ),
]

const REPLIES = Object.entries(ERRORS).map(([name, text]) =>
  scenario(
    name.toLowerCase(),
    `2 % of the commands get ${name}; half of these are executed`,
    answers(`${text}\r\n`),
  ),
)

const SCRIPT = ['NOSCRIPT', 'OOM', 'BUSY', 'READONLY'].map((name) =>
  scenario(
    `script-${name.toLowerCase()}`,
    `2 % of the scripts get ${name} and are not executed, with STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT`,
    sometimes(() => ({ reply: `${ERRORS[name]}\r\n` })),
    {
      env: { STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT: 'true' },
      history: { stopsIncrement: true },
      hasOwnEffect: name === 'NOSCRIPT', // EVAL follows, so a call is degraded only if that meets the fault, too
    },
  ),
)

const OTHERS = [
  scenario(
    'garbage',
    '2 % of the replies are not RESP, or not a count; half of these commands are executed',
    sometimes((random) => {
      const text = GARBAGE[Math.floor(random() * GARBAGE.length)]
      return random() < 0.5 ? { reply: text } : { replaced: text }
    }),
  ),
  scenario(
    'expire-fails',
    'EXPIRE fails after its INCRBY was executed',
    sometimes(() => ({ reply: `${ERRORS.OOM}\r\n` }), ['EXPIRE']),
  ),
]

export const scenarios: readonly Scenario[] = [...NETWORK, ...REPLIES, ...SCRIPT, ...OTHERS].map(underLoad)
