/**
 * The catalogue in force, and who is told of it.
 *
 *     files ──► source ──► store: their ids, their past ──► onSites: who probes
 *                            └── the disk does not take it ──► the old one stays; again after 10 s
 */
import { resolve } from 'node:path'
import type { Log } from '../../engine/runtime/messages.ts'
import { type Catalogue, getCatalogueFolder } from '../catalogue/load.ts'
import { CatalogueSource } from '../catalogue/source.ts'
import type { Region } from '../facts.ts'
import type { ProberSite } from '../prober/messages.ts'
import type { Store } from '../storage/store.ts'
import { proberSites } from './sites.ts'

const RETRY_MS = 10_000

export type PlacedSite = ProberSite & { regions: readonly Region[] }

export interface CatalogueSyncOptions {
  store: Pick<Store, 'ask' | 'read'>
  path: string // CATALOGUE_PATH
  ports: number[] // PROBE_PORTS
  nowSec: () => number
  log: Log
  onSites: (sites: PlacedSite[], optOut: string[]) => void
}

export class CatalogueSync {
  /** In force, known to the store; null until one was. */
  catalogue: Catalogue | null = null
  private readonly options: CatalogueSyncOptions
  private readonly source: CatalogueSource
  private slugs = new Map<string, string>() // by host
  private taking: Promise<void> = Promise.resolve()
  private retry: NodeJS.Timeout | undefined
  private isClosed = false

  constructor(options: CatalogueSyncOptions) {
    this.options = options
    const { path, ports: probePorts, log } = options
    this.source = new CatalogueSource({ path, probePorts, log, onCatalogue: () => this.renew() })
  }

  /** Resolves after the first try, whatever came of it. */
  async start(): Promise<void> {
    await this.source.start()
    await this.taking
  }

  /** Tells `onSites` anew, with what is now known of each site's past: for whoever begins anew. */
  renew(): void {
    clearTimeout(this.retry)
    this.taking = this.taking.then(() => this.take())
  }

  get errorsCount(): number {
    return this.source.loadErrorsCount
  }

  /** The site at a host, by its API's address. */
  findSlug(host: string): string | null {
    return this.slugs.get(host) ?? null
  }

  async close(): Promise<void> {
    this.isClosed = true
    clearTimeout(this.retry)
    await this.source.close()
    await this.taking
  }

  private async take(): Promise<void> {
    const { store, path, ports, nowSec, log, onSites } = this.options
    const { catalogue } = this.source
    if (this.isClosed || catalogue === null) return
    const { entries, optOut } = catalogue
    try {
      const synced = await store.ask({ kind: 'sync-catalogue', sites: entries, nowSec: nowSec() })
      for (const { slug, why } of synced.refused) log('error', `site ${slug} was not taken: ${why}`)
      const looks = new Map((await store.read('probeStates')).map((look) => [look.siteId, look]))
      const folder = resolve(getCatalogueFolder(path))
      const sites = proberSites(entries, { ids: synced.ids, probeStates: looks, ports, folder })
      this.catalogue = catalogue
      this.slugs = new Map(sites.map(({ apiBase, slug }) => [new URL(apiBase).hostname, slug]))
      onSites(sites, [...optOut])
    } catch (error) {
      if (this.isClosed) return
      const text = `the catalogue could not be stored, the old one stays, and in ${RETRY_MS / 1_000} s it is tried again`
      log('error', `${text}: ${(error as Error).message}`)
      this.retry = setTimeout(() => this.renew(), RETRY_MS)
    }
  }
}
