/**
 * Keeps the catalogue in force: stores each new one and passes its sites on.
 *
 *     files ──► source ──► store: ids and probe states of the sites ──► onSites
 *                            └── the store refuses ──► the old catalogue stays; retry after 10 s
 */
import { resolve } from 'node:path'
import type { Log } from '../../engine/runtime/messages.ts'
import { type Catalogue, getCatalogueFolder } from '../catalogue/load.ts'
import { CatalogueSource } from '../catalogue/source.ts'
import type { Store } from '../storage/store.ts'
import { type PlacedSite, proberSites } from './sites.ts'

const RETRY_MS = 10_000

export interface CatalogueSyncOptions {
  store: Pick<Store, 'request' | 'read'>
  path: string // CATALOGUE_PATH
  ports: number[] // PROBE_PORTS
  nowSec: () => number
  log: Log
  onSites: (sites: PlacedSite[], optOut: string[]) => void
}

export class CatalogueSync {
  /** The one in force, which is stored; null before the first. */
  catalogue: Catalogue | null = null
  private readonly options: CatalogueSyncOptions
  private readonly source: CatalogueSource
  private slugs = new Map<string, string>() // by host
  private syncing: Promise<void> = Promise.resolve()
  private retry: NodeJS.Timeout | undefined
  private isClosed = false

  constructor(options: CatalogueSyncOptions) {
    this.options = options
    const { path, ports: probePorts, log } = options
    this.source = new CatalogueSource({ path, probePorts, log, onCatalogue: () => this.renew() })
  }

  /** Resolves after the first attempt, successful or not. */
  async start(): Promise<void> {
    await this.source.start()
    await this.syncing
  }

  /** Calls `onSites` again with the present probe state of each site: for a prober that starts. */
  renew(): void {
    clearTimeout(this.retry)
    this.syncing = this.syncing.then(() => this.sync())
  }

  get errorsCount(): number {
    return this.source.loadErrorsCount
  }

  /** The slug of the site whose `api_base` has this host. */
  findSlug(host: string): string | null {
    return this.slugs.get(host) ?? null
  }

  async close(): Promise<void> {
    this.isClosed = true
    clearTimeout(this.retry)
    await this.source.close()
    await this.syncing
  }

  private async sync(): Promise<void> {
    const { store, path, ports, nowSec, log, onSites } = this.options
    const { catalogue } = this.source
    if (this.isClosed || catalogue === null) return
    const { entries, optOut } = catalogue
    try {
      const synced = await store.request({ kind: 'sync-catalogue', sites: entries, nowSec: nowSec() })
      for (const { slug, why } of synced.refused) log('error', `site ${slug} was not stored: ${why}`)
      const probeStates = new Map((await store.read('probeStates')).map((state) => [state.siteId, state]))
      const folder = resolve(getCatalogueFolder(path))
      const sites = proberSites(entries, { ids: synced.ids, probeStates, ports, folder })
      this.catalogue = catalogue
      this.slugs = new Map(sites.map(({ apiBase, slug }) => [new URL(apiBase).hostname, slug]))
      onSites(sites, [...optOut])
    } catch (error) {
      if (this.isClosed) return
      const text = `the catalogue cannot be stored, the old one stays, retry in ${RETRY_MS / 1_000} s`
      log('error', `${text}: ${(error as Error).message}`)
      this.retry = setTimeout(() => this.renew(), RETRY_MS)
    }
  }
}
