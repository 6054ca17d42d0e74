/** Detections as JSON Schema (spec 3.4, 3.5). */
import {
  durationMs,
  exactly,
  integer,
  list,
  nullable,
  open,
  ratio,
  ref,
  slug,
  text,
  timestamp,
  UUID_V7,
} from './build.ts'
import type { Components } from './json-schema.ts'

export const detectionId = text(
  'Identifier of the detection, a UUID of version 7, from the response to its submission.',
  '019aa122-be00-7000-8000-000000000002',
  36,
  { pattern: UUID_V7 },
)

export const DETECTION_SCHEMAS: Components = {
  DetectionRequest: exactly('What to probe.', {
    url: text(
      'Absolute http or https address of the site; user information is refused, query and fragment are dropped.',
      'https://relay.example.com',
      2_048,
      { minLength: 1 },
    ),
  }),
  Detection: open('One probe of a submitted address. It is kept for 7 days.', {
    id: detectionId,
    url: text('The address that is probed, normalised.', 'https://relay.example.com', 2_048, {
      format: 'uri',
      minLength: 1,
    }),
    status: ref('DetectionStatus'),
    version: integer(
      'Grows with every change; pass it as `since` to wait for the next one.',
      'number',
      [1, 1_000_000],
      9,
    ),
    submitted_at: timestamp('When the address was submitted.', '2026-11-20T12:00:00Z'),
    started_at: nullable(timestamp('When the probe began; null while it is queued.', '2026-11-20T12:00:01Z')),
    finished_at: nullable(timestamp('When the probe ended; null until then.', '2026-11-20T12:00:04Z')),
    expires_at: timestamp('Until when the detection can be read.', '2026-11-27T12:00:00Z'),
    queue_position: nullable(
      integer('Place in the queue, 1 is next; null unless queued.', 'number', [1, 100_000], 3),
    ),
    steps: list('The steps of the probe, in their order.', ref('DetectionStep'), 16),
    result: nullable(ref('DetectionResult', 'What was found; null until `status` is `done`.')),
    error: nullable(ref('DetectionError', 'Why nothing was measured; null unless `status` is `failed`.')),
    site_slug: nullable(slug('Site of the catalogue with the same host; null if there is none.')),
  }),
  DetectionError: open('Why a target was not measured.', {
    code: ref('DetectionErrorCode'),
    message: text('The same in words.', 'the target is not at a public address', 300),
  }),
  DetectionStep: open('A step of a detection.', {
    name: ref('DetectionStepName'),
    status: ref('DetectionStepStatus'),
    ms: durationMs('Time that the step took; null until it has ended, and for steps without one.', 38),
    detail: nullable(
      text('What the step found, in a few words; null if there is nothing to say.', '104.16.0.1', 160),
    ),
  }),
  DetectionResult: open('What a detection found.', {
    verdict: ref('Verdict'),
    confidence: ratio('How sure the verdict is.', 0.9),
    status: ref('Status', 'Result of the probe.'),
    estimated_tier: {
      type: ['string', 'null'],
      description:
        'Tier that the site would have by this one probe, at best B; null unless `verdict` is `relay` or `compatible_api`.',
      enum: ['B', 'C', 'D', null],
      examples: ['B'],
    },
    probe: ref('ProbePoint', 'The measurement; its `window_s` is 0.'),
    models: list(
      'Models that the listing returned, sorted.',
      text('Identifier of a model.', 'gpt-5.4', 128, { minLength: 1 }),
      2_000,
      { uniqueItems: true },
    ),
    models_total: integer(
      'Models in the listing; `models` has the first 2,000.',
      'items',
      [0, 1_000_000],
      38,
    ),
    listing_auth: ref('ListingAuth'),
    network_profile: ref('NetworkProfile'),
    notices: list('What users should know.', ref('Notice'), 32),
    vantage: text('Name of the vantage that probed.', 'main', 64),
  }),
}
