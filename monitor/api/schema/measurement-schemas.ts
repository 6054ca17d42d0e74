/** Score, history, models and incidents of a site; models of all sites; boards, as JSON Schema (spec 3.2, 3.3, 3.6). */
import { CAPS } from '../../scoring/tier.ts'
import {
  boolean,
  choice,
  count,
  date,
  exactly,
  integer,
  link,
  list,
  map,
  nullable,
  number,
  open,
  ratio,
  ref,
  slug,
  text,
  timestamp,
} from './build.ts'
import type { Components } from './json-schema.ts'
import {
  availability7d,
  availability30d,
  MODELS_MAX,
  POINTS_MAX,
  p50Ms,
  SITE,
  siteScore,
} from './site-schemas.ts'

const modelId = text('Identifier of the model, as the site writes it.', 'gpt-5.4', 128, { minLength: 1 })

export const MEASUREMENT_SCHEMAS: Components = {
  SiteScore: open('Why a site has its tier.', {
    score: siteScore,
    tier: ref('Tier', 'Tier of the score, after caps and with its hysteresis.'),
    provisional: boolean(
      'Whether there are too few probes or too little history for more than tier B.',
      false,
    ),
    components: list('The parts of the score.', ref('ScoreComponent'), 16),
    caps: list(
      'Upper limits of the tier that apply now; empty if there is none.',
      ref('ScoreCap'),
      Object.keys(CAPS).length,
    ),
    availability_peak_30d: nullable(
      ratio('Availability from 09:00 to 23:00 UTC+8 of the last 30 days; shown, not scored.', 0.9921),
    ),
    computed_at: timestamp('When the score was computed.', '2026-11-20T16:55:00Z'),
    method: text('Version of the formula.', 'score-1', 64, { minLength: 1 }),
  }),
  ScoreComponent: open('One part of a score.', {
    key: ref('ScoreComponentKey'),
    weight: number(
      'Share of the score that this part has while all parts are known.',
      'points',
      [0, 100],
      40,
    ),
    value: nullable(
      ratio(
        'How good the part is, 1 is the best; null if it is not known, and the others count for more.',
        0.9123,
      ),
    ),
    inputs: map(
      'What the value was computed from: name → ratio, or milliseconds for names that end in `_ms`; null if not known.',
      nullable(number('An input.', 'number', [0, 1e9], 0.9987)),
      32,
      { a24h: 1, a7d: 0.9987, a30d: null },
    ),
  }),
  ScoreCap: open('An upper limit of a tier.', {
    code: ref('CapCode'),
    max_tier: ref('Tier', 'Best tier that the cap allows.'),
  }),
  SiteHistory: open('Measurements of a site, of a span and region of choice.', {
    from: timestamp('Start of the span.', '2026-10-21T17:00:00Z'),
    to: timestamp('End of the span: when the data was published.', '2026-11-20T17:00:00Z'),
    points: list(
      'Measurements, oldest first; periods without a probe are absent.',
      ref('ProbePoint'),
      POINTS_MAX,
    ),
  }),
  SiteModels: open('Models of a site, and which came and went.', {
    models: list('All models that were ever observed, sorted by identifier.', ref('SiteModel'), MODELS_MAX),
    changes: list('Changes of the last 90 days, newest first.', ref('ModelChange'), 1_000),
  }),
  SiteModel: open('A model of a site.', {
    id: modelId,
    claimed: boolean('Whether the site advertises it now.'),
    verified: boolean('Whether the listing of the site returns it now.'),
    source: list(
      'Where it is named now: the catalogue of this monitor, the prices of the site, the listing of the site.',
      choice('A place that names the model.', ['catalogue', 'pricing', 'listing'], 'listing'),
      3,
    ),
    first_seen: timestamp('When it was first observed.', '2026-03-01T09:30:00Z'),
    last_seen: timestamp('When it was last observed.'),
  }),
  ModelChange: open('A model that came or went.', {
    at: timestamp('When the change was observed.'),
    change: choice('What happened to the model.', ['added', 'removed']),
    id: modelId,
  }),
  SiteIncidents: open('When a site was down.', {
    incidents: list('Incidents of the last 400 days, newest first.', ref('Incident'), 1_000),
  }),
  Incident: open('A time in which a site was down.', {
    id: count('Identifier of the incident.', 'number', 9),
    started_at: timestamp('When the site went down.', '2026-11-20T11:51:40Z'),
    ended_at: nullable(timestamp('When it was up again; null while it is down.', '2026-11-20T12:06:40Z')),
    duration_s: count('Time from start to end, or to now while it is down.', 'seconds', 900),
    region: choice(
      'From where the site was down; `all`: from every region that is measured.',
      ['cn', 'overseas', 'all'],
      'all',
    ),
    cause: ref('ProbeErrorCode', 'Error of the probes at its start; code of kind `probe_error`.'),
    vantages: integer('Vantages that reported it.', 'vantages', [0, 10_000], 2),
  }),
  ModelList: open('One page of the models of all sites.', {
    total: count('Models that match, on all pages.', 'items', 84),
    models: list('The models of this page, those of most sites first.', ref('ModelCount'), 200),
  }),
  ModelCount: open('A model, and the sites that have it.', {
    id: text(
      'The form in which models are compared: lower case, without `models/` and `vendor/`.',
      'gpt-5.4',
      128,
      { minLength: 1 },
    ),
    sites: integer('Sites that claim or list it.', 'sites', [1, 100_000], 3),
    verified_sites: list(
      'Sites whose listing returns it, by slug; at most 50 are named.',
      slug('Slug of a site.'),
      50,
    ),
  }),
  Leaderboard: exactly('A board.', {
    board: ref('Board'),
    generated_at: timestamp('When the data was published.', '2026-11-20T17:00:00Z'),
    window_days: {
      type: 'integer',
      description: 'Days of measurements that the board rests on.',
      'x-unit': 'days',
      const: 30,
      examples: [30],
    },
    total: count('Sites that are eligible for this board.', 'sites', 4),
    entries: list('The first entries, by rank.', ref('LeaderboardEntry'), 100),
  }),
  LeaderboardEntry: exactly(
    'A site on a board.',
    {
      ...SITE,
      rank: integer('Place on the board, from 1, without ties.', 'number', [1, 100_000], 1),
      rank_change: nullable(
        integer(
          'Places climbed since 24 hours ago, negative if it fell; null if it was not on the board.',
          'number',
          [-100_000, 100_000],
          2,
        ),
      ),
      score: siteScore,
      availability_7d: availability7d,
      availability_30d: availability30d,
      latency_p50_ms: p50Ms,
      models_claimed: integer('Models that the site advertises.', 'items', [0, MODELS_MAX], 40),
      models_verified: integer('Models that its listing returned.', 'items', [0, MODELS_MAX], 38),
      since: date('Day on which the site entered this board, UTC.', '2026-11-19'),
      reasons: list('Why it is here, strongest first.', ref('BoardReason'), 32, { minItems: 1 }),
      evidence_url: link(
        'Black board only: the evidence for the warning.',
        'https://monitor.example.org/api/v1/sites/gone-relay',
      ),
      appeal_url: nullable(
        text(
          'Black board only: where to report a mistake; null if the operator gives no address.',
          'mailto:help@example.org',
          512,
          { pattern: '^mailto:' },
        ),
      ),
    },
    ['evidence_url', 'appeal_url'],
  ),
}
