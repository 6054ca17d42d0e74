/** A prober at fake relays, and what it has sent so far. */
import { onTestFinished } from 'vitest'
import type { Egress } from '../../../monitor/egress/egress.ts'
import type { FromProber, ProberSite, ToProber } from '../../../monitor/prober/messages.ts'
import { Prober, type ProberOptions } from '../../../monitor/prober/prober.ts'
import { soonProbed } from '../../helpers/slugs.ts'
import type { Relays } from '../probe/setup.ts'

export const INTERVAL_SEC = 60
const SOON_MS = 50

export function startProber(world: Relays, options: Partial<ProberOptions> = {}) {
  const sent: FromProber[] = []
  const context = world.context({ nowMs: Date.now })
  const prober = new Prober({
    context,
    egress: context.egress as Egress,
    region: 'overseas',
    vantage: 'main',
    isSingleVantage: true,
    intervalSec: INTERVAL_SEC,
    lightMax: 8,
    detectionsMax: 2,
    repeatsMax: 0,
    connectivityUrls: [],
    ...options,
    send: (message) => {
      sent.push(message)
      options.send?.(message)
    },
  })
  onTestFinished(() => prober.close())
  const getMessages = <K extends FromProber['kind']>(kind: K) =>
    sent.filter((each): each is Extract<FromProber, { kind: K }> => each.kind === kind)
  return { prober, sent, getMessages }
}

let nextId = 1

/** A site at the relay of this name; seen for the first time, so both probes are due at once. */
export function createSite(world: Relays, name: string, changes: Partial<ProberSite> = {}): ProberSite {
  const { url, apiBase } = world.target(name)
  return {
    ...{ siteId: nextId++, slug: soonProbed(name, INTERVAL_SEC, SOON_MS), url, apiBase },
    ...{ extraPort: null, keyFile: null, intervalSec: null, lastFullSec: null, addresses: [], downs: 0 },
    ...{ downSinceSec: null, ...changes },
  }
}

export const sites = (...all: ProberSite[]): ToProber => ({ kind: 'sites', sites: all, optOut: [] })
export const detection = (world: Relays, id: string, name: string): ToProber => {
  return { kind: 'detect', id, url: world.target(name).url, slug: null }
}
