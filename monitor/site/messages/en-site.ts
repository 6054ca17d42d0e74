/** English texts of the page of a site and its charts. */
import type { Format } from '../format.ts'

export const charts = {
  byDay: 'By day',
  byHour: 'By hour',
  chinaTime: 'China time',
  peak: 'peak',
  hoursTitle: 'Every hour of 30 days, China time',
  hoursText:
    'An hour below 100% has an amber foot, higher for more; an hour that was mostly down is red and full; an empty one was not measured.',
  latencyTitle: 'Time by phase, median per day, log scale',
  latencyText: (f: Format, first: number, last: number, gaps: number) =>
    `Daily medians of 30 days. First byte ${f.number(first)} ms on the first day, ${f.number(last)} ms on the last. ${
      gaps === 0
        ? 'No gaps.'
        : f.plural(gaps, {
            one: '{n} day without a response is left empty.',
            other: '{n} days without a response are left empty.',
          })
    }`,
  noLatency: 'No response has been timed in 30 days.',
  lastDay: 'latest day',
  phases: { dns: 'DNS', connect: 'Connect', tls: 'TLS', ttfb: 'First byte' },
  day: 'Day',
  probes: 'Probes',
  causes: 'Causes',
  cause: 'Cause',
  share: 'Share',
  separator: ', ',
  waterfall: 'From 100 points to the score',
  waterfallNote: 'Each bar is what this part costs, starting from 100.',
  component: 'Component',
  points: 'Points',
  lost: 'Lost',
  lostOnScale: 'Points lost, on the scale of tiers',
  score: 'Score',
  notCounted: 'not counted: nothing to measure',
  listUnread: 'not counted: the list could not be read',
  inputs: {
    availability: (day: string, week: string, month: string) => `24 h ${day}, 7 d ${week}, 30 d ${month}`,
    models: (share: string) => `${share} of claimed models are listed`,
    latency: (p50: string, p95: string) => `median ${p50}, p95 ${p95}`,
    reachability: (share: string) => `reached from ${share} of the measured regions`,
    hygiene: 'certificate, redirects, headers',
  },
  modelsTitle: 'Models claimed and listed over time',
  from: 'From',
  modelsText: (f: Format, claimed: number, listed: number, since: string) =>
    `${f.number(claimed)} claimed and ${f.number(listed)} listed now. The line shows the number listed since ${since}.`,
  asTable: 'Show as a table',
  hoursBelow: 'Hours below 100%, newest first, UTC',
  hour: 'Hour',
  latencyNote:
    'Line: median of the day; on the right, of the latest day with a response. Shade: range of the hourly medians of first byte. Grey: no response, so nothing to measure.',
}

export const sitePage = {
  since: 'in the catalogue since',
  why: {
    flag: 'the operator of this monitor has flagged it by hand, whatever its measurements.',
    down: (duration: string) => `no usable answer for ${duration}.`,
    downFrom: (where: string, duration: string, other: string) =>
      `not reachable from ${where} for ${duration}, reachable from ${other}.`,
    parked: (duration: string) => `nothing but a parked domain has answered for ${duration}.`,
    provisional: (days: string) => `it answers well so far, but its history is only ${days}.`,
    capped: (cap: string) => `the score would allow a better tier, but a cap holds it down. ${cap}.`,
    models: (f: Format, missing: number, claimed: number, points: string) =>
      `${f.number(missing)} of the ${f.number(claimed)} models it claims are not in its own list, which costs ${points} points.`,
    loses: (component: string, points: string) =>
      `it loses most on ${component.toLowerCase()}: ${points} points.`,
    mostFrequent: (cause: string) => `Most frequent cause: ${cause}.`,
    good: 'it answers reliably and fast, and no problem was found.',
  },
  warned: (f: Format, rank: number, since: string) =>
    `Warned of: number ${f.number(rank)} on the black board since ${since}.`,
  recommended: (f: Format, rank: number, since: string) =>
    `Recommended: number ${f.number(rank)} on the red board since ${since}.`,
  theBoard: 'The board',
  flagCertainty:
    'A flag is the operator’s own judgement: the measurements below neither prove nor refute it.',
  figures: {
    score: 'Score',
    of100: (tier: string) => `of 100, tier ${tier}`,
    week: 'Availability, 7 days',
    day: '24 h',
    month: 'Availability, 30 days',
    peak: 'peak hours',
    firstByte: 'First byte, 7 days',
    models: 'Models',
    claimedListed: (_: Format, _claimed: number, _listed: number) => 'claimed models listed',
    claimedUnread: 'claimed; the list could not be read',
    claimsNone: 'claims none',
    listed: 'listed',
    software: 'Software',
    unknown: 'Unknown',
    noFingerprint: 'not recognised',
    confidence: (share: string) => `confidence ${share}`,
  },
  onThisPage: 'On this page',
  whyTier: (tier: string) => `Why tier ${tier}`,
  formula: (method: string) => `Formula ${method}`,
  reachability: 'Reachability',
  month: '30 days',
  incidents: 'Incidents',
  models: 'Models',
  capsTitle: 'Caps hold the tier down, whatever the score.',
  capsBelow: 'These caps would hold the tier down even if the score rose.',
  reasonSeparator: '; ',
  stop: '.',
  noCaps: 'No cap applies. S from 92, A from 80, B from 65, C from 45.',
  tierKept: (tier: string, own: string) =>
    `The score alone would now give tier ${own}. The tier stays ${tier} until the score is 1.0 beyond the border, or beyond it for 24 hours (up) or 6 hours (down).`,
  days: (f: Format, n: number) => f.plural(n, { one: '{n} day', other: '{n} days' }),
  noVantage: 'No vantage there is connected. This is not a finding about the site.',
  unknownRegion: 'No result of the last 24 hours. This is not a finding about the site.',
  vantagesReached: (f: Format, agreeing: number, all: number) =>
    `${f.number(agreeing)} of ${f.plural(all, { one: '{n} vantage', other: '{n} vantages' })} got a response`,
  vantagesFailed: (f: Format, agreeing: number, all: number) =>
    `${f.number(agreeing)} of ${f.plural(all, { one: '{n} vantage', other: '{n} vantages' })} got no usable response`,
  otherReaches: (where: string) =>
    `From ${where} the site is reached, so the route is probably at fault, not the site.`,
  bothFail: 'It fails from everywhere measured, so the site is probably at fault, not a route.',
  oneVantage: 'Only one region is measured, so this does not say whether the site or the route is at fault.',
  checkedAt: (time: string) => `checked ${time} UTC`,
  failed: 'What went wrong',
  failedCount: (f: Format, failed: number, degraded: number, all: number) =>
    `${f.number(failed)} failed, ${f.number(degraded)} degraded, of ${f.number(all)} probes`,
  noFailures: 'No probe has failed or was degraded in 30 days.',
  failedOmits:
    'Hour by hour the region that fared better counts. What fails in one region only is under reachability and incidents.',
  last30: 'The last 30 days',
  counted: (f: Format, all: number) =>
    f.plural(all, { one: '{n} probe counted', other: '{n} probes counted' }),
  latency: 'Latency',
  latencyUnit: 'milliseconds, log scale',
  noIncidents: 'No incident on record. Single failures are counted above, but are not incidents.',
  began: 'Began',
  lasted: 'Lasted',
  open: 'open',
  ended: 'ended',
  everywhere: 'everywhere',
  bothRegions: 'China and overseas',
  network: 'Network and certificate',
  fullProbe: 'full probe of',
  certificate: 'Certificate',
  noCertificateHttp: 'none: the address is http',
  noCertificate: 'none seen',
  validFrom: (issuer: string) => `valid, issued by ${issuer}`,
  invalidFrom: (issuer: string) => `not valid, issued by ${issuer}`,
  daysLeft: (f: Format, n: number) =>
    f.plural(n, { one: '{n} day left, until', other: '{n} days left, until' }),
  cdn: 'CDN',
  cdnNone: 'none seen',
  cdnUnknown: 'seen, provider unknown',
  networkName: 'Network',
  addresses: 'Addresses',
  yes: 'yes',
  no: 'no',
  unknown: 'unknown',
  listedMeans:
    '“Listed” means that the site’s own /v1/models returned the id. Nothing was generated with it.',
  claimedAndListed: 'Claimed and listed',
  claimHolds: 'The site’s own list contains them.',
  claimedOnly: 'Claimed, not listed',
  claimedUnread: 'Claimed, list not read',
  unreadMeans:
    'The site’s own list could not be read without a key, or not at all, so these claims are neither confirmed nor refuted.',
  advertised: 'Advertised in the catalogue or price list only.',
  listedOnly: 'Listed, not claimed',
  notAdvertised: 'The site lists them without advertising them.',
  none: 'None.',
  more: (f: Format, n: number) => `Show all ${f.number(n)}`,
  notShown: (f: Format, n: number) => `${f.number(n)} more in the API`,
  findModel: 'Find a model',
  modelsFound: '{n} found',
  noModels:
    'No model is claimed and no list has been returned. Models are therefore not counted in the score.',
  screenshot: 'Screenshot',
  screenshotAlt: (name: string, date: string) => `Landing page of ${name} on ${date}`,
  screenshotTaken: 'The landing page in a light theme, 1280 by 800, seen by a browser of this monitor on',
  noScreenshot: 'No picture yet. One is taken each month.',
  json: 'Data as JSON',
  badge: 'Badge',
  unit: { day: 'd', hour: 'h', minute: 'min' },
}
