/**
 * Events of V8 and of the event loops of all threads as trace-event JSON, for chrome://tracing and ui.perfetto.dev. Node's
 * inspector in the main thread collects them in memory for the whole process; node:trace_events writes files and does not
 * exist in workers.
 *
 *     { "traceEvents": [ {"name":"thread_name","ph":"M",…,"args":{"name":"worker 0"}}, {"name":"V8.GCScavenger",…}, … ] }
 *
 * Events beyond EVENTS_MAX are dropped. A loaded worker makes about 20,000 per second.
 */
import type { NodeTracing } from 'node:inspector'
import { type InspectOptions, inspect } from './inspect.ts'

const CATEGORIES = ['v8', 'node.environment', 'node.threadpoolwork', 'node.vm.script']
const EVENTS_MAX = 500_000 // 120 MB until they are written

type TraceEvent = Record<string, unknown>

/** Null if `signal` ended it. */
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
    const inspection = await inspect('pulse', options) // for its duration and the names of the threads
    await session.post('NodeTracing.stop')
    await completed
    return inspection && pieces([...events, ...threadNames(inspection.nativeIds)]) // Node names threads too; the last name counts
  } finally {
    session.disconnect()
  }
}

function* threadNames(nativeIds: ReadonlyMap<string, number>): Iterable<TraceEvent> {
  for (const [name, tid] of nativeIds)
    yield { name: 'thread_name', ph: 'M', cat: '__metadata', pid: process.pid, tid, args: { name } }
}

function* pieces(events: readonly TraceEvent[]): Iterable<string> {
  let separator = '{"traceEvents":[\n'
  for (const event of events) {
    yield separator + JSON.stringify(event)
    separator = ',\n'
  }
  yield '\n]}\n'
}
