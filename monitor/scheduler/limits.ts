/**
 * What is running, and whether one more may start (spec 6.4).
 *
 *     kinds     32 light, 4 full, 4 detections      sites     1 each
 *     networks  2 per /24 or /48                    starts    50 in any second
 */
import { parseAddress } from '../egress/address.ts'

export type RunKind = 'detection' | 'full' | 'light'

export const LIGHT_MAX = 32 // default of PROBE_CONCURRENCY
export const FULL_MAX = 4
export const DETECTIONS_MAX = 4 // default of DETECTION_CONCURRENCY
export const PER_NETWORK_MAX = 2
export const STARTS_PER_SECOND_MAX = 50
const NETWORKS_MAX = 8 // of one site; as many as addresses are kept

/** The networks of addresses: IPv4 /24, IPv6 /48. Text that is not an address is ignored. */
export function listNetworks(addresses: readonly string[]): string[] {
  const networks = new Set<string>()
  for (const text of addresses) {
    const address = parseAddress(text)
    if (address === null || networks.size === NETWORKS_MAX) continue
    networks.add(Buffer.from(address.subarray(0, address.length === 4 ? 3 : 6)).toString('hex'))
  }
  return [...networks]
}

/** The places that one run takes. */
export interface Claim {
  kind: RunKind
  site: string // one run each
  networks: readonly string[]
}

export class Running {
  private readonly kindsMax: Record<RunKind, number>
  private readonly kinds: Record<RunKind, number> = { detection: 0, full: 0, light: 0 }
  private readonly sites = new Set<string>()
  private readonly networks = new Map<string, number>()

  constructor(kindsMax: Record<RunKind, number>) {
    this.kindsMax = kindsMax
  }

  getCount(kind: RunKind): number {
    return this.kinds[kind]
  }

  hasRoom(kind: RunKind): boolean {
    return this.kinds[kind] < this.kindsMax[kind]
  }

  hasSite(site: string): boolean {
    return this.sites.has(site)
  }

  /** `reserved`: places per network that are kept for runs that wait longer. */
  hasNetworks(networks: readonly string[], reserved?: ReadonlyMap<string, number>): boolean {
    return networks.every(
      (network) => (this.networks.get(network) ?? 0) + (reserved?.get(network) ?? 0) < PER_NETWORK_MAX,
    )
  }

  enter({ kind, site, networks }: Claim): void {
    this.kinds[kind]++
    this.sites.add(site)
    for (const network of networks) this.networks.set(network, (this.networks.get(network) ?? 0) + 1)
  }

  leave({ kind, site, networks }: Claim): void {
    this.kinds[kind]--
    this.sites.delete(site)
    for (const network of networks) {
      const left = this.networks.get(network)! - 1
      if (left === 0) this.networks.delete(network)
      else this.networks.set(network, left)
    }
  }
}

/** The last 50 starts in a ring: one more may start a second after the oldest, so no window of a second has more. */
export class StartRate {
  private readonly startsMs = new Float64Array(STARTS_PER_SECOND_MAX).fill(Number.NEGATIVE_INFINITY)
  private oldest = 0

  /** The time from which the next start is allowed. */
  freeAtMs(): number {
    return this.startsMs[this.oldest] + 1_000
  }

  record(nowMs: number): void {
    this.startsMs[this.oldest] = nowMs
    this.oldest = (this.oldest + 1) % STARTS_PER_SECOND_MAX
  }
}
