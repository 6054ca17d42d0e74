/**
 * The list of memcached nodes, and which of them has a key (spec 9.6).
 *
 *     MEMCACHE_HOST_PORT   a:11211,b:11211,/run/c.sock      fixed, in this order
 *     MEMCACHE_SRV         _memcache._tcp.cache.example     DNS records, sorted as text; refreshed if configured
 *
 * The index in this list decides which node has a key, exactly as in envoyproxy/ratelimit, so both can run side by side: targets of
 * SRV records keep their final dot, which affects the sort order. When the list changes, keys move to other nodes, where they
 * count from 0.
 *
 * Differences: names are resolved with each new connection, not once, so a node may move; an unknown name fails its own keys
 * only. SRV records are queried by their full name, without search domains.
 */
import { Resolver } from 'node:dns/promises'
import { crc32 } from 'node:zlib'
import { ConfigurationError } from '../../runtime/errors.ts'
import { errorText } from '../connect-retry.ts'
import type { MemcacheAddress } from './node.ts'

export interface ServersOptions {
  hostPort: readonly string[] // MEMCACHE_HOST_PORT
  srv: string // MEMCACHE_SRV
  dnsServers?: readonly string[] // address:port; default: those of the system
}

const SRV_NAME = /^_(.+?)\._(.+?)\.(.+)$/
const DNS_TIMEOUT_MS = 2_000 // per try
const DNS_TRIES = 2
const PORT_MAX = 65_535

/** The list. Throws a ConfigurationError if the settings name no server or the DNS query fails. */
export async function findServers(options: ServersOptions, signal?: AbortSignal): Promise<MemcacheAddress[]> {
  const { hostPort, srv, dnsServers } = options
  if (srv === '') return hostPort.map(parseAddress)
  if (hostPort.length > 0) {
    const what = 'Both MEMCACHE_HOST_PORT and MEMCACHE_SRV are set.'
    throw new ConfigurationError({
      code: 'MEMCACHE_SERVERS_TWICE',
      what,
      fix: 'Unset one of them.',
      exitCode: 2,
    })
  }
  if (!SRV_NAME.test(srv)) throw noServers(`could not parse ${srv} to SRV parts.`)
  const resolver = new Resolver({ timeout: DNS_TIMEOUT_MS, tries: DNS_TRIES })
  if (dnsServers !== undefined) resolver.setServers(dnsServers)
  signal?.addEventListener('abort', () => resolver.cancel(), { once: true })
  try {
    const records = await resolver.resolveSrv(srv)
    return records
      .map(({ name, port }) => `${name.replace(/\.?$/, '.')}:${port}`)
      .sort()
      .map(parseAddress)
  } catch (error) {
    throw noServers(`${errorText(error)}.`, { cause: error })
  }
}

/** Index of the node that has the key. */
export function selectServer(key: string, nodesCount: number): number {
  return nodesCount === 1 ? 0 : crc32(key) % nodesCount
}

export function parseAddress(text: string): MemcacheAddress {
  if (text.includes('/')) return { text, path: text, host: '', port: 0 }
  const parts = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d+)$/.exec(text)
  const port = Number(parts?.[3] ?? 0)
  if (parts === null || port < 1 || port > PORT_MAX) {
    throw new ConfigurationError({
      code: 'MEMCACHE_HOST_PORT_INVALID',
      where: `MEMCACHE_HOST_PORT "${text}"`,
      what: 'it is not host:port.',
      fix: 'Write host:port or the path of a socket for each node, with commas between them.',
      exitCode: 2,
    })
  }
  const host = parts[1] ?? parts[2].replace(/\.$/, '') // getaddrinfo does not find names of /etc/hosts with the dot
  return { text, path: '', host: host || 'localhost', port }
}

function noServers(what: string, options?: ErrorOptions): ConfigurationError {
  return new ConfigurationError(
    {
      code: 'MEMCACHE_SRV_FAILED',
      what: `Unable to fetch servers from SRV: ${what}`,
      fix: 'Write MEMCACHE_SRV as _service._proto.name, with a full name that the DNS knows.',
      exitCode: 2,
    },
    options,
  )
}
