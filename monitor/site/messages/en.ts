/** English texts of the web site. The shape of this catalogue is the type of all others: tsc reports what is missing. */
import type { Format } from '../format.ts'
import { codes } from './en-codes.ts'
import { method } from './en-method.ts'
import { boards, detection, submit, texts } from './en-pages.ts'
import { reference } from './en-reference.ts'
import { charts, sitePage } from './en-site.ts'

export const en = {
  codes,
  frame: {
    title: 'Relay Monitor',
    description: 'Measurements of AI API relay sites: which answer now, how well, and from where.',
    skip: 'Skip to content',
    main: 'Main',
    sites: 'Sites',
    boards: 'Boards',
    detect: 'Detect',
    method: 'Method',
    api: 'API',
    theme: 'Theme',
    themes: { system: 'System theme', light: 'Light theme', dark: 'Dark theme' },
    scored: 'How sites are scored',
    probe: 'What the probe sends, opting out',
    changelog: 'Changelog',
    reference: 'API reference',
    mistake: 'Report a mistake',
    gap: ' ', // between two sentences
    times: 'Times are UTC. Nothing paid or sponsored enters a score.',
    dataTime: (time: string) => `Data of ${time}.`,
  },
  site: {
    tier: 'Tier',
    score: 'score',
    capped: 'capped',
    provisional: 'provisional',
    notMeasured: 'not measured',
    availability: 'Availability',
    firstByte: 'First byte',
    warned: 'warned of',
    claimed: 'Claimed',
    listed: 'Listed',
    strip: (measured: number, lowest: string, day: string) =>
      `30 days: ${measured} measured, lowest ${lowest} on ${day}`,
    noStrip: '30 days: none measured',
    sample: (f: Format, probes: number, vantages: number) => {
      const counted = f.plural(probes, { one: '{n} probe', other: '{n} probes' })
      const from = f.plural(vantages, { one: '{n} vantage', other: '{n} vantages' })
      return `${counted} counted in 30 days${vantages === 0 ? '' : `, ${from} online`}`
    },
  },
  list: {
    heading: 'Which relays answer now',
    lead: (f: Format, { up, degraded, down, from: seen, time }: ListLead) => {
      const all = up + degraded + down
      const are = (n: number) => f.plural(n, { one: '{n} is', other: '{n} are' })
      const sites = f.plural(all, { one: '{n} site', other: '{n} sites' })
      const verb = up === 1 ? 'is' : 'are'
      return `${f.number(up)} of ${sites} ${verb} up, ${are(degraded)} degraded, ${are(down)} down, seen from ${seen} at ${time} UTC.`
    },
    seenFrom: { cn: 'China', overseas: 'overseas', both: 'China and overseas' },
    unmeasured: 'No vantage is connected, so nothing has been measured in the last 24 hours.',
    empty: 'No site is published yet. A site appears after its first probe.',
    matches: (f: Format, found: number, all: number) =>
      `${f.number(found)} of ${f.plural(all, { one: '{n} site matches', other: '{n} sites match' })}.`,
    filters: 'Filter and sort',
    filterSites: 'Filter sites',
    query: 'Name or host',
    tier: 'Tier',
    region: 'Reachable from',
    status: 'Status',
    software: 'Software',
    model: 'Model',
    modelListed: (model: string) => `lists ${model}`,
    modelClaimed: (model: string) => `claims ${model}, does not list it`,
    modelUnread: (model: string) => `claims ${model}; its list could not be read`,
    sort: 'Sort by',
    any: 'Any',
    both: 'Both',
    apply: 'Apply',
    clear: 'Clear filters',
    sorts: {
      rank: 'Rank',
      availability: 'Availability',
      latency: 'First byte',
      name: 'Name',
      first_seen: 'Newest',
      last_probed: 'Last probe',
    },
    notMeasured: {
      cn: {
        title: 'China is not measured here.',
        text: 'No vantage in China is connected, so this page says nothing about reachability from there. “Not measured” never means “blocked”.',
      },
      overseas: {
        title: 'Only China is measured here.',
        text: 'No vantage overseas is connected, so this page says nothing about reachability from there. “Not measured” never means “blocked”.',
      },
    },
    howRegions: 'How regions are measured',
    counts: 'Sites by tier',
    sites: (f: Format, n: number) => f.plural(n, { one: '{n} site in all:', other: 'Of all {n} sites:' }),
    key: 'Key to the strips',
    keyUp: 'available',
    keyLost: 'unavailable: taller is more',
    keyDown: 'down most of the day',
    keyNone: 'not measured',
    table: 'Relay sites',
    columns: {
      tier: 'Tier',
      score: ', score',
      site: 'Site',
      now: 'Now',
      days: '30 days',
      to: ' to ',
      available: 'Available 30 d',
      firstByte: 'First byte',
      last: 'Last probe',
      shortDays: '30 days',
    },
    sevenDays: '7 d',
    daysOnly: (f: Format, n: number) => f.plural(n, { one: '{n} day only', other: '{n} days only' }),
    stripSummary: '30 days: {measured} measured, lowest {lowest}',
    pages: 'Pages',
    range: (f: Format, first: number, last: number, all: number) =>
      `${f.number(first)} to ${f.number(last)} of ${f.number(all)}`,
    previous: 'Previous',
    next: 'Next',
    noMatch: 'No site matches.',
    noMatchText: 'Try fewer filters.',
    noMatchModel: 'Try fewer filters, or another spelling of the model.',
    noRegion: (f: Format, where: string, all: number) =>
      `Reachability from ${where} is measured for none of the ${f.plural(all, { one: '{n} site', other: '{n} sites' })}.`,
  },
  charts,
  sitePage,
  boards,
  submit,
  detection,
  texts,
  reference,
  method,
  errors: {
    notFound: 'There is no page at this address',
    siteNotFound: 'Site not found',
    noSite:
      'No site is listed under this address. It may have another short name, or it was never in the catalogue.',
    noPage: 'The address may be mistyped, or the page no longer exists.',
    find: 'Find a site by name or host',
    findButton: 'Find',
    near: 'Perhaps you meant',
    allSites: 'All sites',
    detectOther: 'Detect a site that is not listed',
    reloads: 'This page loads again in',
    seconds: 's.',
    tooMany: 'Too many requests.',
    tooManyText: (f: Format, limit: number, seconds: number) =>
      `Your address has used its ${f.number(limit)} pages of this minute. Try again in ${f.plural(seconds, { one: '{n} second', other: '{n} seconds' })}.`,
    internal: 'This page failed',
    internalText: (id: string) =>
      `The error is logged with the request id ${id}. Try again, or report the id.`,
    notReady: 'The data is not loaded yet',
    notReadyText: 'The monitor has just started. Try again in a few seconds.',
    tooManyDetections: (f: Format, limit: number, seconds: number) =>
      `Your address has used its ${f.number(limit)} detections of this hour. Try again in ${f.plural(seconds, { one: '{n} second', other: '{n} seconds' })}.`,
    badFilter: 'A filter has a value that does not exist',
    badFilterText:
      'The address of this page asks for a value that the filter does not have. Choose one of those that the list offers.',
    detail: 'In the words of the API:',
    badRequest: 'This request cannot be answered',
    noDetection: 'This detection is not here',
    detectAgain: 'Detect again',
    noDetectionText: 'Detections are kept for 7 days. It may have expired, or the link is incomplete.',
    method: 'This address does not accept this request',
    methodText: (methods: string) => `It accepts ${methods}.`,
  },
}

export interface ListLead {
  up: number
  degraded: number
  down: number
  from: string
  time: string
}

/** A catalogue in any language: the same keys; functions take the same values. */
export type Messages = Shape<typeof en>
type Shape<T> = T extends string
  ? string
  : T extends (...args: never[]) => string
    ? T
    : { [K in keyof T]: Shape<T[K]> }
