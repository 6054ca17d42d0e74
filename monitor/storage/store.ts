/**
 * The monitor's storage (spec 8.2): the interface of this folder.
 *
 *     prober, evaluation ── write ──► writer thread ──► database ──► reader thread ──► read: details
 *                                          └── every 5 s, if changed ──► snapshot: lists, boards
 *
 *     const store = await openStore({ path, log, onSnapshot })
 *     const { ids } = await store.request({ kind: 'sync-catalogue', sites, nowSec })
 *     store.write({ kind: 'probe', siteId: ids[slug], vantageId, probe })
 *     setInterval(() => store.tick(clock()), 1_000)   // the store reads no clock
 *     await store.read('history', { siteId, region: 'all', windowSec: 3600, fromSec, toSec })
 *
 * Callers never wait for the disk: writes are queued (50,000 rows, then the oldest *up* results are dropped), lists come from
 * memory. A killed process loses at most the last 250 ms. With a failed disk, the last snapshot is still served.
 */
import type { Log } from '../../engine/runtime/messages.ts'
import type { WriterRequest, WriterResponses } from './messages.ts'
import { ModelIndex, type ModelIndexDelta } from './model-index.ts'
import type { Reader } from './reader.ts'
import { ReaderClient } from './reader-client.ts'
import type { Write } from './rows.ts'
import type { Snapshot, SnapshotRows } from './snapshot.ts'
import { Writer } from './writer.ts'

export interface Store {
  /** Replaced, never modified. Set from the start. */
  readonly snapshot: Snapshot
  /** Never waits, never throws. */
  write(write: Write): void
  /** Resolves when everything written so far is stored, refused or dropped. */
  flush(): Promise<void>
  request<K extends WriterRequest['kind']>(
    request: Extract<WriterRequest, { kind: K }>,
  ): Promise<WriterResponses[K]>
  read<M extends ReadMethod>(method: M, ...args: Parameters<Reader[M]>): Promise<ReturnType<Reader[M]>>
  /** To be called about once a second; publishes, rolls up, prunes. Resolves when that is done. */
  tick(nowSec: number): Promise<void>
  metrics(): StoreMetrics
  /** Flushes for at most 5 s. Returns how many writes were lost. */
  close(): Promise<number>
}

export type ReadMethod = Exclude<keyof Reader, 'close'>

export interface StoreMetrics {
  queuedRows: number // monitor_store_queue
  droppedUps: number
  droppedOthers: number
  refused: number
  isFailing: boolean // the database cannot be written; writes wait
}

export interface StoreOptions {
  path: string // where the data is; its folder is created
  log: Log
  onSnapshot?: (snapshot: Snapshot) => void
  queueRowsMax?: number // default 50,000
  isRunner?: boolean // runs a monitor on it; only one may at a time
}

export async function openStore({
  path,
  log,
  onSnapshot,
  queueRowsMax,
  isRunner = false,
}: StoreOptions): Promise<Store> {
  let snapshot: Snapshot | null = null
  let models = ModelIndex.NONE
  const take = (rows: SnapshotRows, delta: ModelIndexDelta) => {
    models = models.with(delta)
    snapshot = Object.freeze({ ...deepFreeze(rows), models })
    onSnapshot?.(snapshot)
  }
  const writer = new Writer({ path, isRunner }, { log, snapshot: take }, queueRowsMax)
  await writer.start()
  const details = new ReaderClient(path, log)
  return {
    get snapshot() {
      return snapshot!
    },
    write: (write) => writer.add(write),
    flush: () => writer.flush(),
    request: (request) => writer.request(request),
    read: (method, ...args) => details.read(method, args),
    tick: (nowSec) => writer.tick(nowSec),
    metrics: () => ({
      queuedRows: writer.queue.rowsCount,
      droppedUps: writer.queue.droppedUps,
      droppedOthers: writer.queue.droppedOthers,
      refused: writer.refusedCount,
      isFailing: writer.isFailing,
    }),
    close: async () => {
      await details.close()
      return writer.close()
    },
  }
}

function deepFreeze<T>(value: T): T {
  if (typeof value !== 'object' || value === null || ArrayBuffer.isView(value)) return value // views cannot be frozen
  for (const part of Object.values(value)) deepFreeze(part)
  return Object.freeze(value)
}
