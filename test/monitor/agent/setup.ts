/**
 * A server for agents on a port of its own, with the real store behind it and a clock that is moved by hand; and real
 * agents.
 */
import { join } from 'node:path'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import { onTestFinished } from 'vitest'
import { Agent, type AgentOptions } from '../../../monitor/agent/agent.ts'
import { AgentApi, type AgentApiOptions } from '../../../monitor/agent/agent-api.ts'
import type { AgentSite } from '../../../monitor/agent/assignments.ts'
import { ResultBuffer } from '../../../monitor/agent/buffer.ts'
import type { PollResponse, ResultsResponse, WireResult } from '../../../monitor/agent/wire.ts'
import { POLL_PATH, RESULTS_PATH } from '../../../monitor/agent/wire.ts'
import { DIRECT } from '../../../monitor/api/client-address.ts'
import { AgentClient } from '../../../monitor/egress/agent-client.ts'
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import type { Region } from '../../../monitor/facts.ts'
import { NO_ASN_TABLE } from '../../../monitor/probe/asn.ts'
import { Database } from '../../../monitor/storage/database.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { openStore, type Store } from '../../../monitor/storage/store.ts'
import { createVantage, revokeVantage } from '../../../monitor/storage/vantages.ts'
import { openUws, type UwsPort } from '../../../transports/uws.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { freePort } from '../../helpers/ports.ts'
import { send } from '../api/setup.ts'
import { catalogueSite, NOW_SEC } from '../storage/stores.ts'

export { NOW_SEC } from '../storage/stores.ts'

export interface RequestOptions {
  token?: string
  headers?: Record<string, string>
  from?: string // of 127.0.0.0/8
  method?: string
  isPacked?: boolean
}

export const SITES = ['relay', 'other', 'abroad'] // abroad is probed from overseas only

/** `isDueOnly`: as in service. Most tests send results a second apart, and some of one second. */
export async function startServer(
  { isDueOnly = false, ...options }: Partial<AgentApiOptions> & { isDueOnly?: boolean } = {},
  sites = SITES,
) {
  const path = join(makeMemoryFolder(), 'monitor.db')
  const logged: string[] = []
  const log = (level: string, text: string) => logged.push(`${level}: ${text}`)
  const store = await openStore({ path, log })
  const clock = { ms: NOW_SEC * 1_000 + 500 }
  const listed = sites.map((slug) => catalogueSite(slug))
  const { ids } = await store.request({ kind: 'sync-catalogue', sites: listed, nowSec: NOW_SEC })
  const database = new Database(path) // like a command in another process
  const queued = { rows: 0 } // beside those that are
  const behind: AgentApiOptions['store'] = Object.create(store, {
    write: {
      value: (write: Write) =>
        store.write(write.kind === 'probe' && !isDueOnly ? { ...write, dueSec: undefined } : write),
    },
    metrics: { value: () => ({ ...store.metrics(), queuedRows: store.metrics().queuedRows + queued.rows }) },
  })
  const newApi = () =>
    new AgentApi({
      ...{ store: behind, nowMs: () => clock.ms, intervalSec: 300, ownVantage: null, address: DIRECT, log },
      ...options,
    })
  const server = { api: newApi(), port: null as UwsPort | null, portNumber: await freePort() }
  const open = () => {
    server.port = openUws('127.0.0.1', server.portNumber, (app) =>
      app.any('/*', (res, req) => server.api.handle(res, req)),
    )!
  }
  open()
  onTestFinished(async () => {
    server.port?.close()
    database.close()
    await store.close()
  })

  const request = async (path: string, value: unknown, { token, isPacked, ...more }: RequestOptions = {}) => {
    const plain = Buffer.isBuffer(value) || typeof value === 'string' ? value : JSON.stringify(value)
    const body = isPacked ? await promisify(gzip)(plain) : plain
    const headers = {
      ...(token !== undefined && { authorization: `Bearer ${token}` }),
      ...(isPacked && { 'content-encoding': 'gzip' }),
      ...more.headers,
    }
    return send(server.portNumber, more.method ?? 'POST', path, { ...more, headers, body })
  }
  return {
    ...{ store, clock, database, ids, logged, request, server, open, queued },
    get api() {
      return server.api
    },
    url: () => `http://127.0.0.1:${server.portNumber}`,
    setSites: (more: Partial<AgentSite> = {}, optOut: string[] = []) =>
      server.api.setSites(
        sites.map((slug) => createSite(slug, ids[slug], more)),
        optOut,
      ),
    /** As after a restart of the server: nothing in memory, the same store. */
    restart: () => {
      server.api = newApi()
    },
    publish: () => publish(store, clock),
    create: async (name: string, region: Region = 'cn') => {
      const token = createVantage(database, { name, region, country: null })
      await publish(store, clock)
      return token
    },
    revoke: async (name: string) => {
      revokeVantage(database, name, NOW_SEC)
      await publish(store, clock)
    },
    poll: async (token: string, catalogue: string | null = null, more: RequestOptions = {}) => {
      const body = { catalogue, clock_ms: clock.ms }
      return (await request(POLL_PATH, body, { token, ...more })).json as PollResponse
    },
    results: async (
      token: string,
      results: object[],
      { clockMs = clock.ms, ...more }: RequestOptions & { clockMs?: number } = {},
    ) => {
      const body = { clock_ms: clockMs, results }
      return (await request(RESULTS_PATH, body, { token, ...more })).json as ResultsResponse
    },
    /** What the store has, oldest first. */
    rows: async () => {
      await store.flush()
      return database.all<{
        slug: string
        vantage: string
        at: number
        outcome: string
        error: string | null
      }>(
        `SELECT slug, vantage.name AS vantage, at, outcome, error FROM probe_raw JOIN site ON site.id = site_id
         JOIN vantage ON vantage.id = vantage_id ORDER BY at, slug`,
      )
    },
  }
}

export type Server = Awaited<ReturnType<typeof startServer>>

/** The store publishes every 5 s. */
async function publish(store: Store, clock: { ms: number }): Promise<void> {
  await store.flush()
  clock.ms += 6_000
  await store.tick(Math.floor(clock.ms / 1_000))
}

function createSite(slug: string, siteId: number, more: Partial<AgentSite>): AgentSite {
  const url = `http://${slug}.example.org`
  const regions: Region[] = slug === 'abroad' ? ['overseas'] : ['cn', 'overseas']
  return { siteId, slug, url, apiBase: url, extraPort: null, intervalSec: null, regions, ...more }
}

export function result(sequence: number, more: Partial<WireResult> = {}): WireResult {
  return {
    ...{
      sequence,
      slug: 'relay',
      at_s: NOW_SEC - 60 + sequence,
      outcome: 'up',
      error: null,
      http_status: 401,
    },
    ...{ dns_ms: 4, connect_ms: 38, tls_ms: 44, ttfb_ms: 212, total_ms: 230 },
    ...more,
  }
}

export type AgentChanges = Partial<Pick<AgentOptions, 'nowMs' | 'client'>> & { rowsMax?: number }

/** An agent whose every site is the relay on `relayPort`, with the server's clock. Rounds are made by the test. */
export function startTestAgent(
  server: Server,
  token: string,
  relayPort: number,
  { nowMs = () => server.clock.ms, rowsMax = 1_000, ...more }: AgentChanges = {},
) {
  const logged: string[] = []
  const log: AgentOptions['log'] = (level, text) => logged.push(`${level}: ${text}`)
  const hosts = [...SITES, 'more']
    .flatMap((slug) => [slug, ...[1, 2, 3, 4, 5, 6, 7, 8].map((i) => `${slug}-${i}`)])
    .map((slug) => `${slug}.example.org=127.0.0.2:${relayPort}`)
  const settings = egressSettings({
    NODE_ENV: 'test',
    EGRESS_TEST_ALLOW: '127.0.0.2',
    EGRESS_TEST_HOSTS: hosts.join(','),
  })
  const egress = new Egress({ settings, version: '1.0.0' })
  const options: AgentOptions = {
    client: new AgentClient({ server: server.url(), token, version: '1.0.0' }),
    buffer: new ResultBuffer({ path: join(makeMemoryFolder(), 'agent.sqlite'), rowsMax, log }),
    probing: {
      context: { egress, asn: NO_ASN_TABLE, nowMs },
      ...{ egress, lightMax: 8, repeatsMax: 0, connectivityUrls: [] },
    },
    nowMs,
    log,
    ...more,
  }
  const agent = new Agent(options)
  onTestFinished(() => agent.close())
  return { agent, logged, buffer: options.buffer }
}
