/** English texts of the methodology and of the page about the probe. */
export const method = {
  lead: 'Measurements, and flags that the operator sets by hand and that are labelled. Nothing paid or sponsored enters a score. What a site says of itself counts only where it is checked: the models that it claims, against its own list.',
  weights: 'The score',
  weightsText: (formula: string) =>
    `Formula ${formula}, 0 to 100. Each component is worth 0 to 1 times its weight. Components that cannot be measured are left out, and the others are scaled up.`,
  component: 'Component',
  weight: 'Weight',
  how: 'How it is computed',
  components: {
    availability:
      '24 hours, 7 days and 30 days of probes, weighted 0.2, 0.5 and 0.3: no points at 90%, half at 97%, three quarters at 99%, all at 99.9%.',
    models: 'The share of the models that a site claims which its own listing contains.',
    latency:
      'Time to the first byte, 7 days: the median (60%) from 300 ms to 3 s and the 95th percentile (40%) from 1 s to 8 s, on a log scale.',
    reachability: 'The share of measured regions from which the site is reached.',
    hygiene: 'Certificate, redirect to https, TLS 1.3, HSTS, errors that name no upstream.',
  },
  status: 'Up, degraded, down',
  statuses: {
    up: 'The API answered as an API does, within 3 s to the first byte. Asking for a key counts as an answer.',
    degraded: 'It answered, but later than 3 s, with a browser challenge, or with HTTP 429.',
    down: 'It did not answer as an API, and neither did repetitions after 5 and 15 s: no name, no connection, no TLS, an HTTP error, or a page that is not of an API.',
  },
  now: '“Now” in lists is the better one of the newest probes from China and from overseas: a site that either reaches is not down.',
  tiers: 'Tiers',
  tiersText:
    'S from 92, A from 80, B from 65, C from 45, else D. A tier changes only when the score is 1.0 beyond the border, or beyond it for 24 hours (up) or 6 hours (down).',
  caps: 'Caps',
  capsText: 'Some facts hold a tier down, whatever the score:',
  regions: 'Regions',
  regionsText: [
    'A site is up for a vantage if 2 of its 3 newest results are. A region is reachable if the site is up for at least half of its vantages; a change must be measured twice.',
    'A state stays valid for 24 hours after the last vantage went offline. “Not measured” means that there is no result: it never means “blocked”.',
    'The kind of blocking in one region is determined with the other as control, and is always called likely.',
  ],
  boards: 'Boards',
  boardsText: [
    'Recommended (the red board): tier S, A or B with 7 days of history, 7-day availability of at least 97% and no open incident; ordered by score less 8 / √(days of history).',
    'Warned of (the black board): sites with at least one warning, ordered by the sum of their weights. Each measured warning links to what it was computed from, and leaves by itself when that changes; with a flag no evidence is published. “Tier D, held down by a cap” means that the score is 45 or more, but a cap below makes the tier D.',
  ],
  warning: 'Warning',
  warningsNote:
    'Down for 24 or 72 hours means that no probe was up or degraded in that time. Missing models weigh 30 times the share that is missing, from 5 claimed models and below 70% listed. Sites with fewer than 200 probes or 72 hours of history are warned of only for a flag, 72 hours down or a parked domain.',
  certainty: 'How certain is this?',
  certaintyText: [
    'Each vantage measures one network path to a site. Pages state how many probes and vantages their figures rest on; with few of either, they say little. With one vantage in a region, “unreachable” may be a fault of that one path.',
    'Availability is the share of probes that were up; a degraded one counts 70%. Hour by hour the better region counts, so that a block in one region shows in reachability and not twice. With one vantage and a probe every 300 s, 30 days have 8,640 probes; 99.90% then allow 8 failures, each of which stands for about 5 minutes.',
    'A site that stays down is probed less often, so a long outage weighs less in the share of probes than its duration does. The strips by day and by hour show it whole.',
    'Blocking is inferred from two sides, never seen: it is called likely, with what each side got.',
    'A flag is set by hand by the operator of this monitor. It is a judgement, not a measurement, and says so wherever it is shown.',
    'A listing that names a model does not prove that the model works. A probe without a key sees what an anonymous visitor sees.',
  ],
  mistakes: 'Mistakes and appeals',
  mistakesText: (email: string) =>
    `Report the site, the figure or flag, and the time to ${email}. It is checked by hand; an entry on a board stays while it is checked.`,
  mistakesNoContact:
    'The operator of this monitor has published no address. An entry leaves the black board by itself when its reasons no longer hold.',
  versions: 'Versions of the formula',
  versionsText: (formula: string) =>
    `${formula} is the first and only version so far. A change of weights, borders or caps gets a new name, and is announced in the changelog 14 days before.`,
  scoreJson: 'The score of one site in detail is at /api/v1/sites/{slug}/score.',
  probe: {
    lead: 'Few requests, and a way out. A key is sent only to sites for which the operator of this monitor has one.',
    userAgent: 'User-Agent',
    light: (intervalSec: string, hours: string) =>
      `To each listed site one GET /v1/models every ${intervalSec} s from each vantage, repeated a few times when it fails, and every ${hours} hours a full probe of up to 6 requests: landing page, model listing, status and price list of known software. A site that stays down is probed less often, down to once in 6 hours.`,
    rules: 'Probes use only GET and HEAD, without cookies and referrer, and follow at most 3 redirects.',
    retry: 'HTTP 429 and 503 with Retry-After are honoured, up to an hour.',
    picture: ({ requests, mebibytes, seconds }: PictureBounds) =>
      `Where pictures are taken, a browser loads the landing page once a month as a visitor’s does: it runs scripts, keeps cookies for that visit only, and sends the User-Agent of Chromium. It makes at most ${requests} requests, transfers at most ${mebibytes} MiB and ends after ${seconds} s.`,
    detection: 'To each URL submitted to this monitor: one full probe.',
    sent: 'What is sent',
    out: 'Take a site off',
    outText: (email: string) =>
      `Write to ${email}, from an address at your domain or with any other proof that the host is yours. Your host and its subdomains are then neither probed nor listed, and submissions of them are refused.`,
    outNoContact:
      'Ask the operator of this monitor, who has published no address here. Your host and its subdomains are then neither probed nor listed, and submissions of them are refused.',
    outBlocking:
      'You may also refuse the User-Agent above. Probes do not evade that; the site is then shown as they see it: degraded or down. The browser that takes the monthly picture has another User-Agent, so only opting out ends its visits.',
  },
}

/** Numbers of screenshots/limits.ts, formatted. */
export interface PictureBounds {
  requests: string
  mebibytes: string
  seconds: string
}
