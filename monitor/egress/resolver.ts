/**
 * Names to addresses by c-ares instead of getaddrinfo: no hosts file, no search domains, no blocked pool thread.
 *
 *     resolveHost('relay.example.com', …)   ['203.0.113.7', '2001:db8::7']   all A, then all AAAA
 *     resolveNames('relay.example.com', …)  { cnames: ['x.cloudfront.net'], nameservers: ['ns1.example.net'] }
 *
 * Each lookup has its own channel, so its end cancels nothing else and nothing is cached between two visits. One family may
 * fail (many name servers drop AAAA queries): the addresses of the other are used.
 */
import { Resolver } from 'node:dns/promises'
import { within } from './deadline.ts'
import { Failure, toFailure } from './failure.ts'
import type { Limits } from './limits.ts'

export interface ResolverOptions {
  limits: Limits
  servers?: readonly string[] // address:port; default: those of the system
  signal?: AbortSignal
}

export interface Names {
  cnames: string[] // from the host on, at most CNAMES_MAX
  hasFailed: boolean // a query failed or timed out: the lists may be incomplete
  nameservers: string[] // of the host or of its nearest parent with NS records
}

const CNAMES_MAX = 4
const PARENTS_MAX = 4 // names queried for NS, from the host up
const NO_SUCH_RECORD = new Set(['ENODATA', 'ENOTFOUND'])

/** One to `addressesMax` addresses, or a Failure. Each is checked on the prober's thread, hence the limit. */
export function resolveHost(host: string, options: ResolverOptions): Promise<string[]> {
  return withResolver(options, async (resolver) => {
    const results = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const addresses = results.flatMap((result) => (result.status === 'fulfilled' ? result.value : []))
    if (addresses.length > options.limits.addressesMax) throw new Failure('dns_bogus', 'too many addresses')
    if (addresses.length > 0) return addresses
    const failures = results.map((result) =>
      result.status === 'rejected' ? toFailure('dns', result.reason) : new Failure('dns_error', 'no address'),
    )
    const worst = ['dns_nxdomain', 'dns_timeout', 'dns_error'] as const
    const found = worst.map((code) => failures.find((failure) => failure.code === code)).find(Boolean)
    throw found ?? failures[0]
  })
}

/** Never fails: a missing response is an empty list. */
export async function resolveNames(host: string, options: ResolverOptions): Promise<Names> {
  let hasFailed = false
  const onError = (error: { code?: string }): string[] => {
    hasFailed ||= !NO_SUCH_RECORD.has(error.code ?? '')
    return []
  }
  const [cnames, nameservers] = await Promise.all([
    withResolver(options, (resolver) => cnameChain(host, resolver, onError)).catch(onError),
    withResolver(options, (resolver) => nameserversAbove(host, resolver)).catch(onError),
  ])
  return { cnames, nameservers, hasFailed }
}

async function cnameChain(
  host: string,
  resolver: Resolver,
  onError: (error: { code?: string }) => string[],
): Promise<string[]> {
  const chain: string[] = []
  for (let name = host; chain.length < CNAMES_MAX; name = chain[chain.length - 1]) {
    const [next] = await resolver.resolveCname(name).catch(onError)
    if (next === undefined || next === host || chain.includes(next)) break
    chain.push(next.toLowerCase())
  }
  return chain
}

async function nameserversAbove(host: string, resolver: Resolver): Promise<string[]> {
  const labels = host.split('.')
  for (let above = 0; above < Math.min(labels.length - 1, PARENTS_MAX); above++) {
    try {
      const found = await resolver.resolveNs(labels.slice(above).join('.'))
      if (found.length > 0) return found.slice(0, 8).map((name) => name.toLowerCase())
    } catch (error) {
      if (!NO_SUCH_RECORD.has((error as { code: string }).code)) throw error
    }
  }
  return []
}

/** Cancelled queries reject with ECANCELLED, so a response in time is kept when another query is late. */
function withResolver<T>(options: ResolverOptions, query: (resolver: Resolver) => Promise<T>): Promise<T> {
  const { limits, servers, signal: outer } = options
  return within({ ms: limits.dnsMs, code: 'dns_timeout', outer }, async (signal) => {
    const resolver = new Resolver({ timeout: limits.dnsTryMs, tries: limits.dnsTries })
    if (servers !== undefined) resolver.setServers(servers)
    const cancel = () => resolver.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    return query(resolver)
  })
}
