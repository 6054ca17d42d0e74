/**
 * One probe, with the prober's code and limits (spec 6.1). Nothing is stored.
 *
 *     slug ──► catalogue entry: URL, port, key ──┐
 *     URL ───────────────────────────────────────┴─► egress ──► light or full probe ──► JSON
 */
import { resolve } from 'node:path'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { VERSION } from '../../../engine/runtime/version.ts'
import { networkView } from '../../../monitor/api/site-detail.ts'
import { SLUG } from '../../../monitor/catalogue/fields.ts'
import { type KeyFile, readKey } from '../../../monitor/catalogue/key-file.ts'
import { getCatalogueFolder } from '../../../monitor/catalogue/load.ts'
import { toTargetKey } from '../../../monitor/catalogue/target-key.ts'
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import type { Observation } from '../../../monitor/facts.ts'
import { loadAsnTable, NO_ASN_TABLE } from '../../../monitor/probe/asn.ts'
import { fullProbe } from '../../../monitor/probe/full.ts'
import { lightProbe, type ProbeAttempt, type ProbeTarget } from '../../../monitor/probe/probe.ts'
import type { Step } from '../../../monitor/probe/steps.ts'
import { timestamp } from '../../../monitor/scoring/probe-point.ts'
import { ownHosts } from '../../../monitor/service/options.ts'
import { proberSites } from '../../../monitor/service/sites.ts'
import { UNKNOWN_REGION } from '../../../monitor/storage/snapshot.ts'
import { UsageError } from '../arguments.ts'
import type { Io } from '../io.ts'
import { note, printJson } from '../output.ts'
import type { Command } from './command.ts'
import { type CommandContext, createContext, readCatalogue, readOptOuts } from './context.ts'

export const probe: Command = {
  usage: `probe <slug|url> [--full]

Probes a site of the catalogue, or any public URL, once and prints the result as JSON. Nothing is stored. Exit code 0: it was
probed, whatever the result; 1: it must not be probed, or the probe failed on this side.

  --full   also models, software, network and certificate: up to 6 requests instead of 1
`,
  operands: [1, 1],
  options: { full: { type: 'boolean' } },
  async run({ operands: [text], has }, io) {
    const context = createContext(io)
    const { settings } = context
    const { slug, ...target } = await parseTarget(text, context, io)
    const egress = openEgress(context, io)
    checkAllowed(egress, target)
    const isFull = has('full')
    const asn = isFull ? await loadAsnTable(settings.ASN_DB) : NO_ASN_TABLE
    const probing = { egress, asn, nowMs: Date.now, slowMs: settings.PROBE_SLOW_MS }
    const attempt = isFull
      ? await fullProbe(probing, target, { onStep: (step) => noteStep(io, step) })
      : await lightProbe(probing, target)
    printJson(io, toView(attempt, target, slug, settings.VANTAGE_NAME))
    const { outcome, error } = attempt.probe
    if (outcome === 'inconclusive')
      note(io, `inconclusive: the probe failed on this side (${attempt.detail})`)
    return outcome === 'inconclusive' || error === 'target_not_allowed' ? 1 : 0
  },
}

type NamedTarget = ProbeTarget & { slug: string | null }

async function parseTarget(text: string, context: CommandContext, io: Io): Promise<NamedTarget> {
  if (text.includes('://')) {
    const url = toTargetKey(text)
    if (url === null)
      throw new UsageError(`"${text}" is not a URL that can be probed: http or https, without a user.`)
    return { slug: null, url, apiBase: url, purpose: 'detection' }
  }
  if (SLUG.test(text)) return findSite(text, context, io)
  throw new UsageError(`"${text}" is neither a slug nor a URL. Write URLs with https://.`)
}

async function findSite(name: string, { settings, options }: CommandContext, io: Io): Promise<NamedTarget> {
  const { entries } = readCatalogue(settings.CATALOGUE_PATH, options)
  const entry = entries.find(({ slug, aliases }) => slug === name || aliases.includes(name))
  if (!entry) {
    const what = `there is no site "${name}".`
    const fix = 'sluice monitor list shows all; or write a URL with https://.'
    throw new ConfigurationError({ code: 'SITE_UNKNOWN', where: settings.CATALOGUE_PATH, what, fix })
  }
  const { slug, url, apiBase } = entry
  const { ports } = options
  const folder = resolve(getCatalogueFolder(settings.CATALOGUE_PATH))
  const [site] = proberSites([entry], { ids: { [slug]: 0 }, probeStates: new Map(), ports, folder })
  const extraPort = site.extraPort ?? undefined
  return {
    ...{ slug, url, apiBase, extraPort },
    purpose: 'catalogue',
    key: await readKeyOrNull(site.keyFile, io),
  }
}

/** Like in the prober, a site whose key cannot be read is probed without it. */
async function readKeyOrNull(file: KeyFile | null, io: Io): Promise<string | null> {
  if (file === null) return null
  try {
    return await readKey(file)
  } catch (error) {
    note(io, `note: probed without its key: ${(error as Error).message}`)
    return null
  }
}

function openEgress({ settings }: CommandContext, { env }: Io): Egress {
  const egress = new Egress({
    settings: egressSettings(env),
    version: VERSION,
    ownHosts: ownHosts(settings),
  })
  egress.optOut = readOptOuts(settings.CATALOGUE_PATH).hosts
  return egress
}

const FIXES: Record<string, string> = {
  opted_out: 'Its operator opted out; sluice monitor optout list shows the hosts.',
  port: 'Add the port to PROBE_PORTS, or probe it by its slug: a site may name one extra port.',
}

function checkAllowed(egress: Egress, { url, apiBase, extraPort }: ProbeTarget): void {
  for (const address of [apiBase, url]) {
    const verdict = egress.check(address, extraPort)
    if ('target' in verdict) continue
    const { reason } = verdict.refusal
    const what = `must not be probed (${reason.replaceAll('_', ' ')}).`
    const fix = FIXES[reason] ?? 'Only public addresses can be probed.'
    throw new ConfigurationError({ code: 'TARGET_NOT_ALLOWED', where: address, what, fix })
  }
}

function noteStep(io: Io, { name, status, ms, detail }: Step): void {
  if (status === 'running') return
  note(
    io,
    [name.padEnd(12), status.padEnd(8), ms === null ? '' : `${ms} ms`, detail ?? ''].join(' ').trimEnd(),
  )
}

function toView(
  { probe, listing, detail, ...more }: ProbeAttempt & { observation?: Observation | null },
  { url, apiBase }: ProbeTarget,
  slug: string | null,
  vantage: string,
) {
  const { dnsMs: dns, connectMs: connect, tlsMs: tls, ttfbMs: ttfb, totalMs: total } = probe.timings
  return {
    slug,
    url,
    api_base: apiBase,
    vantage,
    kind: probe.kind,
    at: timestamp(probe.atSec),
    outcome: probe.outcome,
    error: probe.error,
    detail,
    http_status: probe.httpStatus,
    latency_ms: { dns, connect, tls, ttfb, total },
    address: probe.address,
    listing: listing.auth,
    models: more.observation?.models ?? listing.models,
    ...(more.observation && observationView(more.observation)),
  }
}

function observationView({ claimed, profile, hygiene, isParked, atSec }: Observation) {
  const regions = { cn: UNKNOWN_REGION, overseas: UNKNOWN_REGION } // one probe from one vantage does not determine regions
  const { china: _, overseas: __, ...network } = networkView(profile, regions, atSec)
  const { redirectsToHttps, hasHsts, leaksUpstream } = hygiene
  return {
    claimed,
    network_profile: network,
    hygiene: { redirects_to_https: redirectsToHttps, hsts: hasHsts, leaks_upstream: leaksUpstream },
    parked: isParked,
  }
}
