/**
 * The relays of the demo: HTTP servers on loopback addresses that respond as their site does today.
 *
 *     /                       its landing page (landing.ts)
 *     /v1/models              what it lists, or the error of its program without a key
 *     /api/pricing, …         what it claims, where its program has a price list
 *     anything else           as its program does (test/helpers/fake-relays.ts)
 *
 * Each site has two ports, one per region: the one of cn responds later. Latency is added to responses only, not to TCP and TLS.
 */
import { once } from 'node:events'
import { createServer, type RequestListener, type Server, type ServerResponse } from 'node:http'
import { createServer as createTlsServer, type Server as TlsServer } from 'node:https'
import { type AddressInfo, createServer as createTcpServer } from 'node:net'
import type { Region } from '../../../monitor/facts.ts'
import { type Asked, RELAYS, type RelayKind, type Reply } from '../../../test/helpers/fake-relays.ts'
import { landingPage } from './landing.ts'
import { type DemoSite, SLOW_FACTOR } from './sites.ts'

const FLAP_MS = 90_000
const HSTS = { 'strict-transport-security': 'max-age=31536000' }
const CDN = { 'cf-ray': '8f3a1c20be7d4e11-FRA', server: 'cloudflare' }
const HTML = { 'content-type': 'text/html; charset=utf-8' }

export interface Pem {
  cert: Buffer
  key: Buffer
}

export interface DemoRelay {
  site: DemoSite
  address: string
  ports: Record<Region, number>
  /** From now on as the site is today; before, it is well. */
  turnToToday(): void
  /** From now on as late as the site is; before, at once. */
  delayReplies(): void
  close(): Promise<void>
}

export async function startDemoRelay(
  site: DemoSite,
  { address, well, expired }: { address: string; well: Pem; expired: Pem },
): Promise<DemoRelay> {
  let isToday = false
  let isDelayed = false
  let isFailing = false
  let requestsCount = 0
  const servers = { cn: open('cn'), overseas: open('overseas') }
  const flapping = setInterval(() => {
    isFailing = !isFailing && site.now === 'flapping'
  }, FLAP_MS)

  function open(region: Region): Server | TlsServer {
    const delayMs = site.rttMs[region] + site.serverMs * (site.now === 'slow' ? SLOW_FACTOR : 1)
    const serve: RequestListener = (request, response) => {
      const asked = { path: request.url!.split('?')[0], count: requestsCount++, key: null, delayMs: 0 }
      const reply = isToday ? todaysReply(site, asked, isFailing) : wellReply(site, asked)
      if (!isDelayed) {
        send(response, reply)
        return
      }
      const timer = setTimeout(() => send(response, reply), delayMs * (0.9 + 0.2 * Math.random()))
      response.once('close', () => clearTimeout(timer))
    }
    const server = site.scheme === 'https' ? createTlsServer({ ...well }, serve) : createServer(serve)
    server.on('tlsClientError', () => {})
    return server
  }

  for (const server of Object.values(servers)) await once(server.listen(0, address), 'listening')
  return {
    ...{ site, address },
    ports: { cn: getPort(servers.cn), overseas: getPort(servers.overseas) },
    turnToToday: () => {
      isToday = true
      if (site.now !== 'expired') return
      for (const server of Object.values(servers)) (server as TlsServer).setSecureContext(expired)
    },
    delayReplies: () => {
      isDelayed = true
    },
    close: async () => {
      clearInterval(flapping)
      await Promise.all(Object.values(servers).map(closeServer))
    },
  }
}

/** Resets each connection after its first bytes, which are a ClientHello. */
export async function startBlocker(address: string): Promise<{ port: number; close: () => Promise<void> }> {
  const server = createTcpServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.resetAndDestroy())
  })
  await once(server.listen(0, address), 'listening')
  const close = () => new Promise<void>((resolve) => server.close(() => resolve()))
  return { port: (server.address() as AddressInfo).port, close }
}

function todaysReply(site: DemoSite, asked: Asked, isFailing: boolean): Reply {
  if (isFailing) return { status: 502, headers: HTML, body: '<!doctype html><title>502 Bad Gateway</title>' }
  if (site.now === 'parked') return { headers: HTML, body: landingPage(site) }
  if (site.now === 'challenge' || site.now === 'failing') return programReply(site.now, asked)
  return wellReply(site, asked)
}

function wellReply(site: DemoSite, asked: Asked): Reply {
  const { path } = asked
  const ofProgram = programReply(site.relay, asked)
  const headers = { ...ofProgram.headers, ...(site.scheme === 'https' && HSTS), ...(site.isBehindCdn && CDN) }
  const wellSite = site.now === 'parked' ? { ...site, now: undefined } : site
  if (path === '/') return { headers: { ...headers, ...HTML }, body: landingPage(wellSite) }
  if (path.endsWith('/v1/models') && site.listed)
    return { headers: { ...headers, 'content-type': 'application/json' }, body: listing(site.listed) }
  if (path === '/api/pricing' && ofProgram.status === undefined)
    return { ...ofProgram, headers, body: { ...(ofProgram.body as object), data: site.claimed.map(toPrice) } }
  if (path === '/api/available_model' && ofProgram.status === undefined) {
    const data = Object.fromEntries(site.claimed.map((id) => [id, {}]))
    return { headers, body: { success: true, message: '', data } }
  }
  return { ...ofProgram, headers }
}

function programReply(kind: RelayKind, asked: Asked): Reply {
  return (RELAYS[kind] as (asked: Asked) => Reply)(asked)
}

function listing(ids: readonly string[]) {
  return { object: 'list', data: ids.map((id) => ({ id, object: 'model', owned_by: 'custom' })) }
}

function toPrice(model_name: string) {
  return { model_name, quota_type: 0, model_ratio: 1 }
}

function send(response: ServerResponse, { status = 200, headers = {}, body = '' }: Reply): void {
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const type = typeof body === 'string' ? 'text/plain' : 'application/json'
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers })
  response.end(bytes)
}

function getPort(server: Server | TlsServer): number {
  return (server.address() as AddressInfo).port
}

async function closeServer(server: Server | TlsServer): Promise<void> {
  const closed = once(server, 'close')
  server.close()
  server.closeAllConnections()
  await closed
}
