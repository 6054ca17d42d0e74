/** English texts of boards, submission, detection and text pages. */
import type { Format } from '../format.ts'

export const boards = {
  title: 'Boards',
  heading: 'Recommended, and warned of',
  lead: 'Both boards are computed from 30 days of measurements. Nobody can buy a place, and no site is on both.',
  red: 'Recommended',
  black: 'Warned of',
  redTag: (f: Format, n: number) =>
    `The red board · ${f.plural(n, { one: '{n} site qualifies', other: '{n} sites qualify' })}`,
  blackTag: (f: Format, n: number) =>
    `The black board · ${f.plural(n, { one: '{n} site', other: '{n} sites' })}`,
  redRule: 'Tier S, A or B, at least 7 days of history, 97% available in 7 days, no open incident.',
  blackRule: 'At least one reason below holds now. Each links to its evidence.',
  redEmpty: 'No site qualifies now.',
  blackEmpty: 'No site is warned of now.',
  appealTitle: 'If this is your site:',
  appeal:
    'an entry leaves by itself when its reasons no longer hold. If a measurement is wrong, report it with the time, and it is checked by hand.',
  unchanged: 'unchanged',
  isNew: 'new',
  up: (n: number) => `up ${n}`,
  down: (n: number) => `down ${n}`,
  week: '7 d',
  month: '30 d',
  since: 'since',
  evidence: 'Evidence',
  rules: 'How to read the boards',
  rulesList: [
    '“Red” is the Chinese name of an honour board. It is not a warning.',
    'Order on the red board: score, less a discount for short history.',
    'Order on the black board: the weight of its reasons, heaviest first.',
  ],
  unmeasured: {
    cn: 'China is not measured here, so neither board says anything about it.',
    overseas: 'Only China is measured here, so neither board says anything about other places.',
  },
  method: 'The method in full',
  redJson: 'Red board as JSON',
  blackJson: 'Black board as JSON',
  cappedToD: 'Tier D, held down by a cap',
  missingModels: (f: Format, missing: number, claimed: number) =>
    `${f.number(missing)} of ${f.number(claimed)} claimed models are not in its list`,
}

export const submit = {
  title: 'Detect',
  heading: 'Check one relay now',
  lead: 'One full probe of an address you name. It takes a few seconds; the result stays at its own unlisted link for 7 days.',
  label: 'Address of the relay, as you give it to your client',
  start: 'Start detection',
  hint: 'Query and fragment are dropped. Do not include a key: none is needed and none is accepted.',
  whatSent: 'What is sent, what is read',
  sent: [
    ['Resolve', 'DNS, up to 8 addresses'],
    ['Connect and TLS', 'times, certificate, protocol'],
    ['Landing page and model list', 'one GET each, no key, no cookies'],
    ['Fingerprint and network', 'relay software, CDN, network'],
  ],
  quota: 'Your quota',
  left: (f: Format, remaining: number, limit: number) => `${f.number(remaining)} of ${f.number(limit)}`,
  leftText: 'detections left for your address this hour.',
  resets: (time: string) =>
    `It resets at ${time} UTC. A site checked within the last minutes returns that result and takes no place in the queue.`,
  limits: 'What one probe cannot tell',
  limitsList: [
    'Availability needs days. A single probe is rated B at best.',
    '“Listed” models are names that the site returned. No text is generated with them.',
  ],
  disabled: 'Detections are switched off on this monitor.',
  problem: 'The address was not accepted',
  notFull:
    'This is not a full address. Begin with https:// or http://, for example https://relay.example.com.',
  noQuota: 'Your quota cannot be determined now. Try again in a moment.',
  crossSite: 'This form can only be sent from this site.',
}

export const detection = {
  running: 'Detection is running',
  queued: 'Detection is queued',
  failed: 'Detection failed',
  heading: {
    relay: (status: string) => `It is a relay, and it is ${status.toLowerCase()}`,
    compatible_api: (status: string) => `It has a compatible API, and it is ${status.toLowerCase()}`,
    not_relay: () => 'It is not a relay',
    blocked: () => 'It answers with a block page or limit, so nothing can be said',
    unreachable: () => 'It is not reachable',
  },
  step: (f: Format, step: number, all: number) => `Step ${f.number(step)} of ${f.number(all)}:`,
  position: (f: Format, n: number) => `Place ${f.number(n)} in the queue.`,
  started: (time: string) => `Started ${time} UTC; ends within 45 s.`,
  stepsDone: 'Steps done',
  steps: 'Steps',
  names: {
    resolve: 'Resolve the name',
    connect: 'Connect',
    tls: 'TLS handshake',
    landing: 'Landing page',
    listing: 'Model list',
    fingerprint: 'Software',
    network: 'Network',
    summary: 'Summary',
  },
  states: {
    pending: 'waiting',
    running: 'running',
    ok: 'done',
    warn: 'done, with a warning',
    error: 'failed',
    skipped: 'skipped',
  },
  details: {
    addresses: (f: Format, n: number) => f.plural(n, { one: '{n} address', other: '{n} addresses' }),
    daysLeft: (f: Format, n: number) =>
      f.plural(n, { one: 'certificate ends in {n} day', other: 'certificate ends in {n} days' }),
    withKey: (f: Format, n: number) =>
      f.plural(n, { one: '{n} model with the key', other: '{n} models with the key' }),
    fixed: {
      'IPv6 too': 'IPv6, too',
      'no CDN seen': 'no CDN seen',
      'plain http': 'none: the address is http',
      'left to the proxy': 'left to the proxy',
      'key not accepted': 'the key was not accepted',
      unknown: 'unknown',
    } as Record<string, string>,
  },
  certificateLeft: (f: Format, n: number) => f.plural(n, { one: '{n} day left', other: '{n} days left' }),
  certificateInvalid: 'Not valid',
  noVantage: 'this detection had no vantage there',
  inAll: (ms: string) => `${ms} ms in all`,
  estimated: (tier: string) => `Estimated tier ${tier}.`,
  atBest: 'One probe is rated B at best.',
  inCatalogue: (tier: string) => `This site is in the catalogue, where 30 days count: tier ${tier}.`,
  ofAll: (total: string) => `of ${total} in all`,
  modelList: 'Model list',
  auth: { open: 'Open', key_required: 'Key required', absent: 'None' },
  httpStatus: (status: number) => `HTTP ${status}`,
  modelsSeen: (f: Format, n: number) => f.plural(n, { one: '{n} model', other: '{n} models' }),
  kept: 'This page is unlisted: only its link leads here. It is kept until',
  close: 'You may close this page; the result will be here.',
  another: 'Detect another',
  copy: 'Copy the link',
  copied: 'Copied.',
  known: 'Already in the catalogue',
  knownText:
    'One probe says how the site answers this minute. Its page says how it has answered for 30 days.',
  notices: 'Notices',
  failures: {
    target_not_allowed: 'The target is not at a public address.',
    queue_timeout: 'It was queued too long. Try again later.',
    deadline_exceeded: 'It took longer than 45 s.',
    internal_error: 'An error of this monitor. It is logged.',
  },
}

export const texts = {
  changelog: 'Changelog of the API',
  changelogLead: 'Every change but a fix is announced at least 14 days before it takes effect.',
  announced: 'announced',
  effective: 'in effect from',
  feed: 'Atom feed',
  kinds: {
    added: 'Added',
    changed: 'Changed',
    deprecated: 'Deprecated',
    removed: 'Removed',
    fixed: 'Fixed',
  },
  englishOnly: '',
  probeTitle: 'What the probe sends',
  methodTitle: 'How sites are scored',
}
