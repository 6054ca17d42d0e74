/** Faults of the service itself: a worker that crashes, threads whose event loops stall, a process that is stopped. */
import { eventually } from '../../helpers/eventually.ts'
import { startRedis } from '../../helpers/redis.ts'
import { readRedis } from '../redis-faults.ts'
import { HARMLESS, type LoadScenario, type Parts, type Scenario, type Stage, underLoad } from '../scenario.ts'
import { checkOtherWorker } from '../spared.ts'

const STALL_MS = 1_500
const CRASH_GAP_MS = 15_000 // between crashes; a service whose workers crash 5 times in a minute ends

async function startWith(begin: Parts['begin'], end: Parts['end'] = () => {}): Promise<Parts> {
  const redis = await startRedis()
  return {
    env: { REDIS_URL: redis.address },
    begin,
    end,
    read: (keys) => readRedis(redis, keys),
    stop: () => redis.stop(),
  }
}

async function crashWorker({ service, round }: Stage): Promise<void> {
  const countEnds = () => service.log.split('ended: Error: crash requested').length
  const ends = countEnds()
  service.child.send({ crashWorker: round % 2 })
  await eventually(() => {
    if (countEnds() === ends) throw new Error('the worker has not ended')
  })
}

const SCENARIOS: LoadScenario[] = [
  {
    name: 'worker-crashed',
    fault: 'one of two workers crashes (an uncaught error)',
    promise:
      'its calls in flight have no answer, and their hits are counted at most once; the other worker and new connections are served',
    losesConnections: true,
    gapMs: CRASH_GAP_MS,
    start: () => startWith(crashWorker),
  },
  {
    name: 'worker-stalled',
    fault: `the event loop of one of two workers is blocked for ${STALL_MS / 1_000} s`,
    promise:
      'its calls are answered after that, those of the other worker on time; none is counted twice, no connection is lost',
    slowsMs: STALL_MS / 2,
    history: { deadlineMs: Number.POSITIVE_INFINITY },
    timeoutsMs: [undefined],
    start: () =>
      startWith(async (stage) => {
        stage.service.child.send({ stallWorker: 0, stallMs: STALL_MS })
        await checkOtherWorker(stage, STALL_MS)
      }),
  },
  {
    name: 'main-stalled',
    fault: `the event loop of the main thread is blocked for ${STALL_MS / 1_000} s`,
    promise: 'no call is degraded or late, every counter is exact',
    ...HARMLESS,
    history: {}, // with the deadline of every scenario
    start: () => startWith(({ service }) => void service.child.send({ stallMs: STALL_MS })),
  },
  {
    name: 'service-stopped',
    fault: 'the whole service is stopped (SIGSTOP) and continued',
    promise: 'calls are answered after that, none is counted twice, no connection is lost',
    slowsMs: 100, // half of the shortest fault
    history: { deadlineMs: Number.POSITIVE_INFINITY },
    timeoutsMs: [undefined],
    start: () =>
      startWith(
        ({ service }) => void service.child.kill('SIGSTOP'),
        ({ service }) => void service.child.kill('SIGCONT'),
      ),
  },
]

export const scenarios: readonly Scenario[] = SCENARIOS.map(underLoad)
