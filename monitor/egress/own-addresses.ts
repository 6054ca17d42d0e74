/**
 * Addresses of this installation that no interface shows: of PUBLIC_BASE_URL (behind NAT or a load balancer), of the proxy
 * and of the cache backend. Resolved by getaddrinfo, hosts file included, as in the rest of the process; again each
 * minute, in the background. A name that fails to resolve keeps its previous addresses.
 *
 *     const own = new OwnAddresses(['monitor.example.org', 'redis'])
 *     await own.refresh()   // waits for the first results only, OWN_MS at most
 *     own.known             // the addresses so far
 */
import { lookup } from 'node:dns/promises'
import { parseAddress } from './address.ts'

const REFRESH_MS = 60_000
const OWN_MS = 2_000
const HOSTS_MAX = 64

export class OwnAddresses {
  private readonly addressesByHost = new Map<string, string[]>() // host → its addresses
  private readonly names: string[]
  private lookedUpAtMs = Number.NEGATIVE_INFINITY
  private lookups: Promise<unknown> = Promise.resolve()
  private hasResults = false

  /** Names and literal addresses, at most 64. */
  constructor(hosts: readonly string[]) {
    if (hosts.length > HOSTS_MAX) throw new RangeError(`${hosts.length} own hosts, ${HOSTS_MAX} at most`)
    for (const host of hosts) if (parseAddress(host) !== null) this.addressesByHost.set(host, [host])
    this.names = hosts.filter((host) => !this.addressesByHost.has(host))
  }

  get known(): string[] {
    return [...this.addressesByHost.values()].flat()
  }

  async refresh(): Promise<void> {
    if (this.names.length === 0) return
    const nowMs = performance.now()
    if (nowMs - this.lookedUpAtMs >= REFRESH_MS) {
      this.lookedUpAtMs = nowMs
      this.lookups = Promise.all(this.names.map((name) => this.lookUp(name))).then(() => {
        this.hasResults = true
      })
    }
    if (this.hasResults) return
    let timer: NodeJS.Timeout | undefined
    const timeout = new Promise((resolve) => {
      timer = setTimeout(resolve, OWN_MS)
    })
    await Promise.race([this.lookups, timeout])
    clearTimeout(timer)
  }

  private async lookUp(name: string): Promise<void> {
    try {
      const results = await lookup(name, { all: true })
      this.addressesByHost.set(
        name,
        results.map(({ address }) => address),
      )
    } catch {
      // keeps its addresses; private ones are denied without this list
    }
  }
}
