/**
 * Pictures for the web site: read off the event loop, kept in memory up to 32 MiB, each read once at a time.
 *
 *     path ─► row (the store's reader) ─► file ─► kept by content
 */
import { LRUCache } from 'lru-cache'
import { Body } from '../api/bodies.ts'
import type { Store } from '../storage/store.ts'
import { readImage } from './image-files.ts'
import { toMonth } from './schedule.ts'

const CACHE_BYTES_MAX = 32 * 1_024 * 1_024
const NAMES_MAX = 10_000
const READS_MAX = 32 // at once; beyond, a request is refused as busy
const MONTH = /^20[0-9]{2}-(?:0[1-9]|1[0-2])$/
const MONTHS_KEPT = 12

export class ImageCache {
  private readonly store: Pick<Store, 'read'>
  private readonly folder: string
  private readonly images = new LRUCache<string, Body>({
    maxSize: CACHE_BYTES_MAX,
    sizeCalculation: (body) => body.bytes,
  })
  private readonly names = new LRUCache<string, string>({ max: NAMES_MAX }) // version, site, month → file; '' = none
  private readonly reading = new Map<string, Promise<Body | null>>() // at most READS_MAX

  constructor(store: Pick<Store, 'read'>, folder: string) {
    this.store = store
    this.folder = folder
  }

  /** Null if there is none. `version`: of the snapshot, at `nowSec`. Throws TooManyReadsError, and as the store and the disk do. */
  async get(siteId: number, month: string, version: number, nowSec: number): Promise<Body | null> {
    if (!isKept(month, nowSec)) return null
    const key = `${version} ${siteId} ${month}`
    const sha256 = this.names.get(key)
    if (sha256 === '') return null
    const kept = sha256 === undefined ? undefined : this.images.get(sha256)
    if (kept) return kept
    let reading = this.reading.get(key)
    if (!reading) {
      if (this.reading.size >= READS_MAX) throw new TooManyReadsError(`${READS_MAX} pictures are being read`)
      reading = this.read(siteId, month, key).finally(() => this.reading.delete(key))
      this.reading.set(key, reading)
    }
    return reading
  }

  private async read(siteId: number, month: string, key: string): Promise<Body | null> {
    const sha256 = (await this.store.read('screenshot', siteId, month))?.sha256 ?? ''
    this.names.set(key, sha256)
    const kept = this.images.get(sha256)
    if (kept || sha256 === '') return kept ?? null
    const image = await readImage(this.folder, sha256)
    if (image === null) return null
    const body = new Body(image)
    this.images.set(sha256, body)
    return body
  }
}

/** Too many reads at once: try again. */
export class TooManyReadsError extends Error {
  override name = 'TooManyReadsError'
}

/** Bounds what can be asked for: this month and the twelve before. */
function isKept(month: string, nowSec: number): boolean {
  if (!MONTH.test(month)) return false
  const now = toMonth(nowSec)
  const age =
    Number(now.slice(0, 4)) * 12 +
    Number(now.slice(5)) -
    Number(month.slice(0, 4)) * 12 -
    Number(month.slice(5))
  return age >= 0 && age <= MONTHS_KEPT
}
