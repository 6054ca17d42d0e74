/**
 * How often one target may be run, for all clients together (spec 4.5): a host once a minute and 12 times a day, a
 * registrable domain 60 times a day. In memory: a restart forgets it, and cannot be asked for from outside.
 */
import { DAY_SEC } from '../scoring/bucket.ts'
import { registrableDomain } from './target.ts'

const HOST_EVERY_SEC = 60
const HOST_RUNS_MAX = 12
const DOMAIN_RUNS_MAX = 60
const NAMES_MAX = 50_000 // of hosts, and of domains. The queue lets fewer through in a day; beyond, the day begins anew

interface Runs {
  count: number // today
  lastSec: number
}

export class Cooldown {
  private hosts = new Map<string, Runs>()
  private domains = new Map<string, Runs>()
  private day = 0

  /** Seconds until this host may be run; 0 = now. */
  waitSec(host: string, nowSec: number): number {
    this.turn(nowSec)
    const ofHost = this.hosts.get(host)
    const ofDomain = this.domains.get(registrableDomain(host))
    const dayLeftSec = DAY_SEC - (nowSec % DAY_SEC)
    if ((ofDomain?.count ?? 0) >= DOMAIN_RUNS_MAX || (ofHost?.count ?? 0) >= HOST_RUNS_MAX) return dayLeftSec
    const waitSec = ofHost ? ofHost.lastSec + HOST_EVERY_SEC - nowSec : 0
    return Math.min(HOST_EVERY_SEC, Math.max(0, waitSec)) // less than it says where the clock was set back
  }

  add(host: string, nowSec: number): void {
    this.turn(nowSec)
    count(this.hosts, host, nowSec)
    count(this.domains, registrableDomain(host), nowSec)
  }

  /** A new day: only who ran in its last minute is still remembered. */
  private turn(nowSec: number): void {
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
