/** What must be empty or small when everything has been answered. Reads private fields, since no interface shows them. */
import { Violation } from './oracle.ts'

const SPARE_BATCHES_MAX = 8
const TIMERS_MAX_PER_WORKER = 12 // sweeps, probes, health checks, reports, the deadline

interface WithBreaker {
  breaker: { isOpen: boolean }
}

interface Stores {
  nodes?: { nodes: readonly WithBreaker[] } // memcached
  topologies?: readonly { node: WithBreaker }[] // Redis
}

interface Left {
  // biome-ignore lint/suspicious/noExplicitAny: private fields of the engine and the stores
  workers: readonly { engine: any; store: any }[]
  time: { timersCount: number }
  servers: readonly { links: ReadonlySet<unknown> }[]
  models: readonly unknown[]
}

/** `schedule` is quiet: each call has been answered and no server fails. */
export function checkLeftovers(schedule: unknown): void {
  const { workers, time, servers } = schedule as Left
  for (const { engine, store } of workers) {
    expectAtMost('spare batches', engine.spareBatches.length, SPARE_BATCHES_MAX)
    expectAtMost('requests without a batch sent', engine.openBatch.requestsCount, 0)
    expectAtMost('batches with deadlines', engine.deadlines.batches.size, 0)
    expectAtMost('batches in flight', store.inFlightCount, 0)
    expectAtMost('waiting batches', store.waiting ? 1 : 0, 0)
    if (store.pending) {
      expectAtMost('keys with pending hits', store.pending.hitsByKey.size, 0)
      expectAtMost('increments that are not settled', store.pending.count, 0)
      for (const node of store.nodes.nodes) expectAtMost('commands without a reply', node.commandsCount, 0)
    }
    for (const topology of store.topologies ?? []) {
      expectAtMost('calls without a reply', topology.node.calls.length, 0)
      expectAtMost('overdue calls', topology.node.overdueCount, 0)
    }
  }
  for (const { links } of servers) expectAtMost('connections to a server', links.size, workers.length)
  expectAtMost('timers', time.timersCount, TIMERS_MAX_PER_WORKER * workers.length)
}

function expectAtMost(what: string, count: number, max: number): void {
  if (!(count <= max)) throw new Violation('nothing is left', `${count} ${what}, at most ${max}`)
}

/** Whether no hit of the worker would be sent now. */
export function isEveryBreakerOpen({ store }: { store: unknown }): boolean {
  const { nodes, topologies } = store as Stores
  const breakers = nodes?.nodes ?? topologies!.map(({ node }) => node)
  return breakers.every(({ breaker }) => breaker.isOpen)
}
