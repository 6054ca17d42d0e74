/**
 * Names to addresses, with c-ares and not getaddrinfo: no hosts file, no search domains, no thread of the pool blocked.
 *
 *     resolveHost('relay.example.com', …)   ['203.0.113.7', '2001:db8::7']   all A, then all AAAA
 *     resolveNames('relay.example.com', …)  { cnames: ['x.cloudfront.net'], nameservers: ['ns1.example.net'] }
 *
 * Each look-up has a channel of its own, so that its end cancels nothing else and nothing is cached between two visits.
 * One family may fail (many name servers drop AAAA questions): what the other answered counts, and only that is connected to.
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
  cnames: string[] // the chain from the host, at most CNAMES_MAX
  nameservers: string[] // of the host or of the nearest name above it that has some
}

const CNAMES_MAX = 4
const PARENTS_MAX = 4 // names asked for NS on the way up
const NO_SUCH_RECORD = new Set(['ENODATA', 'ENOTFOUND'])

/** One to `answersMax` addresses, or a Failure. Each is judged on the prober's thread, so a flood of them is not a site. */
export function resolveHost(host: string, options: ResolverOptions): Promise<string[]> {
  return asking(options, async (resolver) => {
    const answers = await Promise.allSettled([resolver.resolve4(host), resolver.resolve6(host)])
    const addresses = answers.flatMap((answer) => (answer.status === 'fulfilled' ? answer.value : []))
    if (addresses.length > options.limits.answersMax) throw new Failure('dns_bogus', 'too many addresses')
    if (addresses.length > 0) return addresses
    const failures = answers.map((answer) =>
      answer.status === 'rejected' ? toFailure('dns', answer.reason) : new Failure('dns_error', 'no address'),
    )
    const worst = ['dns_nxdomain', 'dns_timeout', 'dns_error'] as const
    const found = worst.map((code) => failures.find((failure) => failure.code === code)).find(Boolean)
    throw found ?? failures[0]
  })
}

/** Never fails: an answer that does not come is an empty list. */
export async function resolveNames(host: string, options: ResolverOptions): Promise<Names> {
  const [cnames, nameservers] = await Promise.all([
    asking(options, (resolver) => cnameChain(host, resolver)).catch(() => []),
    asking(options, (resolver) => nameserversAbove(host, resolver)).catch(() => []),
  ])
  return { cnames, nameservers }
}

async function cnameChain(host: string, resolver: Resolver): Promise<string[]> {
  const chain: string[] = []
  for (let name = host; chain.length < CNAMES_MAX; name = chain[chain.length - 1]) {
    const [next] = await resolver.resolveCname(name).catch(() => [])
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
      if (!NO_SUCH_RECORD.has((error as { code: string }).code)) return []
    }
  }
  return []
}

/** A cancelled question rejects with ECANCELLED, so an answer that came in time survives a late neighbour. */
function asking<T>(options: ResolverOptions, ask: (resolver: Resolver) => Promise<T>): Promise<T> {
  const { limits, servers, signal: outer } = options
  return within({ ms: limits.dnsMs, code: 'dns_timeout', outer }, async (signal) => {
    const resolver = new Resolver({ timeout: limits.dnsTryMs, tries: limits.dnsTries })
    if (servers !== undefined) resolver.setServers(servers)
    const cancel = () => resolver.cancel()
    signal.addEventListener('abort', cancel, { once: true })
    return ask(resolver)
  })
}
