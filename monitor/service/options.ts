/**
 * What the settings mean for the monitor. Read once by main, so that a mistake ends the start with one line that names it,
 * and again by the thread.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import type { AddressOptions } from '../api/client-address.ts'
import { parseRange } from '../egress/address.ts'
import { egressSettings } from '../egress/egress.ts'

export interface MonitorOptions {
  host: string
  port: number // 0 = any free one
  agents: { host: string; port: number } | null // AGENT_ADDR; null = nobody reports
  address: AddressOptions
  publicBaseUrl: string // without a slash at its end; empty = none
  ports: number[] // PROBE_PORTS
}

const NAME = /^[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?$/
const HOST = /^(?:rediss?:\/\/)?(?:[^@/]*@)?(\[[^\]]+\]|[^:/?@]+)/ // none of a socket's path
const HOSTS_MAX = 64
const COUNTRY = /^([A-Z]{2})?$/

/** Throws OperatorError. */
export function monitorOptions(
  settings: Settings,
  env: Readonly<Record<string, string | undefined>>,
): MonitorOptions {
  const egress = egressSettings(env)
  const { VANTAGE_NAME: name, VANTAGE_COUNTRY: country } = settings
  if (!NAME.test(name)) throw complaint('VANTAGE_NAME', name, 'Use lower-case letters, digits and hyphens.')
  if (!COUNTRY.test(country)) throw complaint('VANTAGE_COUNTRY', country, 'Use two capital letters, or none.')
  for (const url of settings.CONNECTIVITY_CHECK_URLS) {
    if (!/^https?:/.test(url) || !URL.canParse(url))
      throw complaint('CONNECTIVITY_CHECK_URLS', url, 'Use addresses like https://example.com/.')
  }
  return {
    ...listenAddress('MONITOR_ADDR', settings.MONITOR_ADDR),
    agents: settings.AGENT_ADDR === '' ? null : listenAddress('AGENT_ADDR', settings.AGENT_ADDR),
    address: {
      trusted: settings.TRUSTED_PROXIES.map((text) => {
        const range = parseRange(text)
        if (range === null)
          throw complaint('TRUSTED_PROXIES', text, 'Use addresses, or ranges like 10.0.0.0/8.')
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

/** Hosts of the counters: never a target (spec 5.4). */
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

/** `0.0.0.0:8090`, `[::]:8090`, `:8090`. Throws OperatorError. */
export function listenAddress(name: string, text: string): { host: string; port: number } {
  const match = /^(?:\[([0-9a-fA-F:]+)\]|([^:\s]*)):([0-9]{1,5})$/.exec(text)
  const port = Number(match?.[3])
  if (match === null || port > 65_535) throw complaint(name, text, 'Use host:port, like 0.0.0.0:8090.')
  return { host: match[1] ?? (match[2] || '0.0.0.0'), port }
}

function complaint(where: string, value: string, fix: string): ConfigurationError {
  return new ConfigurationError({
    code: 'MONITOR_SETTING',
    where,
    what: `"${value.slice(0, 64)}" is not allowed.`,
    fix,
    exitCode: 2,
  })
}
