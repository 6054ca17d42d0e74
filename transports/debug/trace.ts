/**
 * What V8 and the event loops of all threads did, one after the other: trace-event JSON, as chrome://tracing and
 * ui.perfetto.dev show it. Collected in memory by Node's inspector in main, which sees the threads of the whole process;
 * node:trace_events would write files, and does not exist in workers.
 *
 *     { "traceEvents": [ {"name":"thread_name","ph":"M",…,"args":{"name":"worker 0"}}, {"name":"V8.GCScavenger",…}, … ] }
 *
 * Gives up: what comes after EVENTS_MAX. A loaded worker makes some 20,000 per second.
 */
import type { NodeTracing } from 'node:inspector'
import { type InspectOptions, inspect } from './inspect.ts'

const CATEGORIES = ['v8', 'node.environment', 'node.threadpoolwork', 'node.vm.script']
const EVENTS_MAX = 500_000 // 120 MB while they are written

type TraceEvent = Record<string, unknown>

/** Null when `signal` ended it. */
export async function trace(options: InspectOptions): Promise<Iterable<string> | null> {
  const { Session } = await import('node:inspector/promises')
  const session = new Session()
  const events: TraceEvent[] = []
  session.connect()
  try {
    session.on(
      'NodeTracing.dataCollected',
      ({ params }: { params: NodeTracing.DataCollectedEventDataType }) => {
        for (const event of params.value as TraceEvent[]) if (events.length < EVENTS_MAX) events.push(event)
      },
    )
    const completed = new Promise((resolve) => session.once('NodeTracing.tracingComplete', resolve))
    await session.post('NodeTracing.start', { traceConfig: { includedCategories: CATEGORIES } })
    const pulses = await inspect('pulse', options) // for the time it takes, and the names of threads
    await session.post('NodeTracing.stop')
    await completed
    return pulses && pieces([...events, ...threadNames(pulses.nativeIds)]) // the last name of a thread counts, and Node has some, too
  } finally {
    session.disconnect()
  }
}

function* threadNames(nativeIds: ReadonlyMap<string, number>): Iterable<TraceEvent> {
  for (const [name, tid] of nativeIds)
    yield { name: 'thread_name', ph: 'M', cat: '__metadata', pid: process.pid, tid, args: { name } }
}

function* pieces(events: readonly TraceEvent[]): Iterable<string> {
  let before = '{"traceEvents":[\n'
  for (const event of events) {
    yield before + JSON.stringify(event)
    before = ',\n'
  }
  yield '\n]}\n'
}
