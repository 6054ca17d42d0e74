/**
 * How often a target may be probed, for all clients together (spec 4.5): a host once a minute and 12 times a day, a
 * registrable domain 60 times a day. In memory only: a restart resets it, which clients cannot cause.
 */
import { DAY_SEC } from '../scoring/bucket.ts'
import { registrableDomain } from './target.ts'

const HOST_EVERY_SEC = 60
const HOST_RUNS_MAX = 12
const DOMAIN_RUNS_MAX = 60
const NAMES_MAX = 50_000 // of hosts, and of domains; the queue admits fewer per day. Beyond, all counts are dropped

interface Runs {
  count: number // today
  lastSec: number
}

export class Cooldown {
  private hosts = new Map<string, Runs>()
  private domains = new Map<string, Runs>()
  private day = 0

  /** Seconds until this host may be probed; 0 = now. */
  waitSec(host: string, nowSec: number): number {
    this.startDay(nowSec)
    const hostRuns = this.hosts.get(host)
    const domainRuns = this.domains.get(registrableDomain(host))
    const dayLeftSec = DAY_SEC - (nowSec % DAY_SEC)
    if ((domainRuns?.count ?? 0) >= DOMAIN_RUNS_MAX || (hostRuns?.count ?? 0) >= HOST_RUNS_MAX)
      return dayLeftSec
    const waitSec = hostRuns ? hostRuns.lastSec + HOST_EVERY_SEC - nowSec : 0
    return Math.min(HOST_EVERY_SEC, Math.max(0, waitSec)) // the maximum applies when the clock was set back
  }

  add(host: string, nowSec: number): void {
    this.startDay(nowSec)
    count(this.hosts, host, nowSec)
    count(this.domains, registrableDomain(host), nowSec)
  }

  /** On a new day all counts start at 0; hosts of the last minute stay known. */
  private startDay(nowSec: number): void {
    const day = Math.floor(nowSec / DAY_SEC)
    if (day === this.day) return
    this.day = day
    this.domains = new Map()
    const recent = [...this.hosts].filter(([, { lastSec }]) => lastSec + HOST_EVERY_SEC > nowSec)
    this.hosts = new Map(recent.map(([host, { lastSec }]) => [host, { count: 0, lastSec }]))
  }
}

function count(runs: Map<string, Runs>, name: string, nowSec: number): void {
  if (runs.size >= NAMES_MAX && !runs.has(name)) runs.clear()
  runs.set(name, { count: (runs.get(name)?.count ?? 0) + 1, lastSec: nowSec })
}
