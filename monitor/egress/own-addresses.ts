/**
 * Addresses that are ours without an interface showing it: of PUBLIC_BASE_URL (behind NAT, a load balancer), of the
 * proxy and of the cache backend. Asked for with getaddrinfo, as the rest of the process finds them, hosts file included; asked again each
 * minute, beside the work. A name that does not resolve keeps what it had.
 *
 *     const own = new OwnAddresses(['monitor.example.org', 'redis'])
 *     await own.refresh()   // waits for the first answers only, OWN_MS at most
 *     own.known             // addresses, without asking
 */
import { lookup } from 'node:dns/promises'
import { parseAddress } from './address.ts'

const REFRESH_MS = 60_000
const OWN_MS = 2_000
const HOSTS_MAX = 64

export class OwnAddresses {
  readonly #known = new Map<string, string[]>() // host → its addresses
  readonly #names: string[]
  #askedAtMs = Number.NEGATIVE_INFINITY
  #asking: Promise<unknown> = Promise.resolve()
  #hasAnswers = false

  /** Names and literal addresses; more than 64 are a mistake of whoever put them together. */
  constructor(hosts: readonly string[]) {
    if (hosts.length > HOSTS_MAX) throw new RangeError(`${hosts.length} own hosts, ${HOSTS_MAX} at most`)
    for (const host of hosts) if (parseAddress(host) !== null) this.#known.set(host, [host])
    this.#names = hosts.filter((host) => !this.#known.has(host))
  }

  get known(): string[] {
    return [...this.#known.values()].flat()
  }

  async refresh(): Promise<void> {
    if (this.#names.length === 0) return
    const nowMs = performance.now()
    if (nowMs - this.#askedAtMs >= REFRESH_MS) {
      this.#askedAtMs = nowMs
      this.#asking = Promise.all(this.#names.map((name) => this.#ask(name))).then(() => {
        this.#hasAnswers = true
      })
    }
    if (this.#hasAnswers) return
    let timer: NodeJS.Timeout | undefined
    const late = new Promise((resolve) => {
      timer = setTimeout(resolve, OWN_MS)
    })
    await Promise.race([this.#asking, late])
    clearTimeout(timer)
  }

  async #ask(name: string): Promise<void> {
    try {
      const answers = await lookup(name, { all: true })
      this.#known.set(
        name,
        answers.map((answer) => answer.address),
      )
    } catch {
      // it keeps what it had; private addresses are denied without this list
    }
  }
}
