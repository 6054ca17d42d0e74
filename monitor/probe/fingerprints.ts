/**
 * How to tell relay programs apart: the table of spec 6.2, from what their public code answers. Judged in software.ts.
 *
 *     strong   alone enough: a name of its own            weak   two of them are: words that others could use as well
 *
 * A new program is new rows here, and, if it answers on a path of its own, that path in FINGERPRINT_PATHS.
 */
import type { NetworkFacts } from '../facts.ts'

export type Software =
  | 'new-api'
  | 'one-api'
  | 'one-hub'
  | 'done-hub'
  | 'veloera'
  | 'sub2api'
  | 'claude-relay-service'
  | 'litellm'
export type SoftwareFacts = NetworkFacts['software']

/** Where a mark is looked for. Members are paths into the JSON: `data.version`. */
export type Where =
  | { header: string } // of any answer
  | { errorType: string } // `error.type` of any answer
  | { path: string; has: readonly string[]; without?: readonly string[] } // all of the one, none of the other
  | { path: string; member: string; matches: RegExp }
  | { path: string; text: RegExp } // status 200, first 64 KiB
  | { landsOn: string } // where the landing page leads to

export interface Mark {
  software: Software
  strength: 'strong' | 'weak'
  where: Where
}

export const LANDING_PATH = '/'
export const STATUS_PATH = '/api/status'
export const PRICING_PATH = '/api/pricing'
export const AVAILABLE_PATH = '/api/available_model'

/** Asked, in this order, of what is not of the one-api family. */
export const FINGERPRINT_PATHS = ['/health', '/setup/status', '/health/liveliness']

const NEW_API_STATUS = [
  'data.quota_display_type',
  'data.self_use_mode_enabled',
  'data.uptime_kuma_enabled',
  'data.HeaderNavModules',
]
const NEW_API_PRICING = ['group_ratio', 'usable_group', 'supported_endpoint', 'pricing_version']
const ONE_HUB_STATUS = [
  'data.chat_links',
  'data.PaymentUSDRate',
  'data.PaymentMinAmount',
  'data.telegram_bot',
]
const ONE_API_STATUS = [
  'success',
  'data.system_name',
  'data.quota_per_unit',
  'data.chat_link',
  'data.display_in_currency',
]

const strong = (software: Software, where: Where): Mark => ({ software, strength: 'strong', where })
const weak = (software: Software, where: Where): Mark => ({ software, strength: 'weak', where })

export const MARKS: readonly Mark[] = [
  strong('new-api', { header: 'x-new-api-version' }),
  strong('new-api', { errorType: 'new_api_error' }),
  ...NEW_API_STATUS.map((name) => weak('new-api', { path: STATUS_PATH, has: [name] })),
  ...NEW_API_PRICING.map((name) => weak('new-api', { path: PRICING_PATH, has: [name] })),

  strong('veloera', { path: STATUS_PATH, text: /veloera/i }),
  strong('veloera', { path: LANDING_PATH, text: /veloera-user|<title>[^<]{0,40}veloera/i }),

  strong('one-api', { header: 'x-oneapi-request-id' }),
  strong('one-api', { errorType: 'one_api_error' }),
  strong('one-api', { path: STATUS_PATH, has: ONE_API_STATUS, without: NEW_API_STATUS }),

  strong('one-hub', { errorType: 'one_hub_error' }),
  ...ONE_HUB_STATUS.map((name) => weak('one-hub', { path: STATUS_PATH, has: [name] })),
  weak('one-hub', { path: AVAILABLE_PATH, has: ['success', 'data'] }),

  strong('done-hub', { path: STATUS_PATH, text: /done[- ]?hub/i }),
  strong('done-hub', { path: LANDING_PATH, text: /<title>[^<]{0,40}done[- ]?hub/i }),

  strong('sub2api', { path: '/setup/status', has: ['code', 'data.needs_setup', 'data.step'] }),
  strong('sub2api', { path: '/api/v1/settings/public', has: ['code', 'data.site_name'] }),
  weak('sub2api', { path: '/health', member: 'status', matches: /^ok$/ }),

  strong('claude-relay-service', { path: '/health', member: 'service', matches: /^claude-relay-service$/ }),
  weak('claude-relay-service', { landsOn: '/admin-next/' }),

  strong('litellm', { header: 'x-litellm-version' }),
  strong('litellm', { path: '/health/liveliness', text: /^"?I'm alive!"?$/ }),
]

/** Who descends from whom, and so shows its marks too. A descendant that is found hides its ancestors. */
export const PARENTS: Partial<Record<Software, Software>> = {
  veloera: 'new-api',
  'new-api': 'one-api',
  'done-hub': 'one-hub',
  'one-hub': 'one-api',
}

/** Where the version stands, first found wins. */
export const VERSIONS: readonly {
  of: readonly Software[]
  header?: string
  path?: string
  member?: string
}[] = [
  { of: ['new-api', 'veloera'], header: 'x-new-api-version' },
  { of: ['litellm'], header: 'x-litellm-version' },
  { of: ['one-api', 'new-api', 'veloera', 'one-hub', 'done-hub'], path: STATUS_PATH, member: 'data.version' },
  { of: ['claude-relay-service'], path: '/health', member: 'version' },
  { of: ['sub2api'], path: '/api/v1/settings/public', member: 'data.version' },
]
