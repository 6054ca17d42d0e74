/**
 * The settings of the monitor, validated and parsed: once by main, so that an error ends the start, and again by the
 * thread.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { AddressOptions } from '../api/client-address.ts'
import { parseRange } from '../egress/address.ts'
import { egressSettings } from '../egress/egress.ts'
import type { Settings } from '../settings.ts'

export interface MonitorOptions {
  host: string
  port: number // 0 = any free one
  agents: { host: string; port: number } | null // AGENT_ADDR; null = no agents
  address: AddressOptions
  publicBaseUrl: string // without a final slash; empty = none
  ports: number[] // PROBE_PORTS
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const HOST = /^(?:rediss?:\/\/)?(?:[^@/]*@)?(\[[^\]]+\]|[^:/?@]+)/ // does not match a socket path
const HOSTS_MAX = 64
const EMAIL = /^[^\s\p{Cc}@<>,;:?&#%"]{1,64}@[^\s\p{Cc}@<>,;:?&#%"]{1,253}$/u // as it stands in mailto: links
const COUNTRY = /^([A-Z]{2})?$/

/** Throws ConfigurationError. */
export function monitorOptions(
  settings: Settings,
  env: Readonly<Record<string, string | undefined>>,
): MonitorOptions {
  const egress = egressSettings(env)
  const { VANTAGE_NAME: name, VANTAGE_COUNTRY: country } = settings
  if (!NAME.test(name))
    throw settingError('VANTAGE_NAME', name, 'Use lower-case letters, digits and hyphens.')
  if (!COUNTRY.test(country))
    throw settingError('VANTAGE_COUNTRY', country, 'Use two capital letters, or none.')
  if (settings.SUPPORT_EMAIL !== '' && !EMAIL.test(settings.SUPPORT_EMAIL))
    throw settingError('SUPPORT_EMAIL', settings.SUPPORT_EMAIL, 'Write one address, like help@example.org.')
  for (const url of settings.CONNECTIVITY_CHECK_URLS) {
    if (!/^https?:/.test(url) || !URL.canParse(url))
      throw settingError('CONNECTIVITY_CHECK_URLS', url, 'Use addresses like https://example.com/.')
  }
  return {
    ...listenAddress('MONITOR_ADDR', settings.MONITOR_ADDR),
    agents: settings.AGENT_ADDR === '' ? null : listenAddress('AGENT_ADDR', settings.AGENT_ADDR),
    address: {
      trusted: settings.TRUSTED_PROXIES.map((text) => {
        const range = parseRange(text)
        if (range === null)
          throw settingError('TRUSTED_PROXIES', text, 'Use addresses, or ranges like 10.0.0.0/8.')
        return range
      }),
      header: settings.CLIENT_IP_HEADER,
      hasProxyProtocol: settings.PROXY_PROTOCOL,
      trustsUnix: false,
      ipv6Prefix: settings.IPV6_PREFIX,
    },
    publicBaseUrl: egress.publicBaseUrl?.href.replace(/\/$/, '') ?? '',
    ports: [...egress.ports],
  }
}

/** Hosts of the counter stores, which are never probed (spec 5.4). */
export function ownHosts(settings: Settings): string[] {
  const { BACKEND_TYPE, REDIS_URL, REDIS_PERSECOND, REDIS_PERSECOND_URL, MEMCACHE_HOST_PORT } = settings
  const redis = REDIS_PERSECOND ? [REDIS_URL, REDIS_PERSECOND_URL] : [REDIS_URL]
  const texts = { redis, memcache: MEMCACHE_HOST_PORT, memory: [] }[BACKEND_TYPE].flatMap((text) =>
    text.split(','),
  )
  return texts
    .flatMap((text) => HOST.exec(text.trim())?.[1]?.replace(/^\[|\]$/g, '') ?? [])
    .slice(0, HOSTS_MAX)
}

/** `0.0.0.0:8090`, `[::]:8090`, `:8090`. Throws ConfigurationError. */
export function listenAddress(name: string, text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:\s]*)):([0-9]{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) throw settingError(name, text, 'Use host:port, like 0.0.0.0:8090.')
  return { host: match[1] ?? (match[2] || '0.0.0.0'), port }
}

function settingError(where: string, value: string, fix: string): ConfigurationError {
  return new ConfigurationError({
    code: 'MONITOR_SETTING',
    where,
    what: `${JSON.stringify(value.slice(0, 64))} is not allowed.`,
    fix,
    exitCode: 2,
  })
}
