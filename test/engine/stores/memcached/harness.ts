/** Helpers for tests of the memcached store: requests in, each member's previous count or error out. */

import { Stats } from '../../../../engine/stats/stats.ts'
import { Batch } from '../../../../engine/stores/batch.ts'
import { Counter } from '../../../../engine/stores/counter.ts'
import { MemcacheStore } from '../../../../engine/stores/memcached/memcached-store.ts'
import type { MemcacheOptions } from '../../../../engine/stores/memcached/options.ts'
import type { Working } from '../../../../engine/stores/store-health.ts'

export const NOW_SEC = Math.floor(Date.now() / 1000) // memcached compares dates with its own clock
export const EXPIRY_SEC = 100

export type Hits = readonly [key: string, hits: number | bigint, expirySec?: number]
export type Befores = (number | string)[][] // per request, per member

export interface Adding {
  store: MemcacheStore
  log: string[]
  health: Working[] // as it was reported
  /** One batch. */
  add(...requests: (readonly Hits[])[]): Promise<Befores>
  /** Counters that are not 0, without `ratelimit.memcache.`. */
  stats(): Record<string, number>
}

/** A store on these nodes. `onDone` is called with each response, before hits are added. */
export function storeOn(nodes: string[], options: Partial<MemcacheOptions> = {}, onDone = () => {}): Adding {
  const log: string[] = []
  const health: Working[] = []
  const stats = new Stats()
  const store = new MemcacheStore(
    {
      hostPort: nodes,
      srv: '',
      srvRefreshMs: 0,
      tls: null,
      isErrorZero: false,
      timeoutMs: 5_000,
      ...options,
    },
    {
      stats,
      log: (level, message) => log.push(`${level} ${message}`),
      onHealth: ([{ working }]) => health.push(working),
    },
  )
  const totals = new Map<string, number>()
  return {
    store,
    log,
    health,
    add: (...requests) => addTo(store, requests, onDone),
    stats() {
      const { names, values } = stats.takeDeltas()
      names.forEach((name, i) => {
        const short = name.replace('ratelimit.memcache.', '')
        if (values[i] !== 0) totals.set(short, (totals.get(short) ?? 0) + values[i])
      })
      return Object.fromEntries(totals)
    },
  }
}

function addTo(store: MemcacheStore, requests: (readonly Hits[])[], onDone: () => void): Promise<Befores> {
  const batch = new Batch()
  const members = requests.map((request) => {
    const added = request.map(([key, hits, expirySec = EXPIRY_SEC]) =>
      batch.add(new Counter(key), hits, 9, NOW_SEC + 60, expirySec, false),
    )
    batch.endRequest()
    return added
  })
  return new Promise((resolve) => {
    store.add(batch, NOW_SEC, () => {
      onDone()
      resolve(
        members.map((added) =>
          added.map((member) => batch.getError(member)?.message ?? batch.getPreviousCount(member)),
        ),
      )
      batch.clear() // as the engine does; nothing of it may be needed any more
    })
  })
}
