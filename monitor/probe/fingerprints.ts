/**
 * How relay programs are distinguished: the table of spec 6.2, from the responses of their public code; evaluated in
 * software.ts.
 *
 *     strong   sufficient alone: a name of its own            weak   two are sufficient: words that others could use as well
 *     hint     never sufficient: selects whose path is requested next (next-path.ts)
 *
 * A new program is new rows here and, if it has a path of its own, a row of OWN_PATHS.
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

/** Where a mark is searched. Members are paths into the JSON: `data.version`. */
export type Where =
  | { header: string } // of any response
  | { errorType: string } // `error.type` of any response
  | { path: string; has: readonly string[]; without?: readonly string[] } // all of the one, none of the other
  | { path: string; member: string; matches: RegExp }
  | { path: string; text: RegExp } // status 200, first 64 KiB
  | { landsOn: string } // path that the landing page redirects to

export interface Mark {
  software: Software
  strength: 'strong' | 'weak' | 'hint'
  where: Where
}

export const LISTING_PATH = '/v1/models'
export const LANDING_PATH = '/'
export const STATUS_PATH = '/api/status'
export const PRICING_PATH = '/api/pricing'
export const AVAILABLE_PATH = '/api/available_model'

const HEALTH_PATH = '/health'
const LIVELINESS_PATH = '/health/liveliness'
const SETTINGS_PATH = '/api/v1/settings/public'
const SETUP_PATH = '/setup/status'

/**
 * Paths that only some programs serve, in the order for a site without marks. One or two requests are left for them, so the
 * programs with the fewest hints come first. SETTINGS_PATH precedes SETUP_PATH because it has the version too.
 */
export const OWN_PATHS: readonly { path: string; of: readonly Software[] }[] = [
  { path: SETTINGS_PATH, of: ['sub2api'] },
  { path: HEALTH_PATH, of: ['claude-relay-service'] },
  { path: LIVELINESS_PATH, of: ['litellm'] },
  { path: SETUP_PATH, of: ['sub2api'] },
  { path: AVAILABLE_PATH, of: ['one-api', 'one-hub', 'done-hub'] },
]

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
const hint = (software: Software, where: Where): Mark => ({ software, strength: 'hint', where })

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
  hint('one-hub', { path: STATUS_PATH, has: ['data.system_name'] }),

  strong('done-hub', { path: STATUS_PATH, text: /done[- ]?hub/i }),
  strong('done-hub', { path: LANDING_PATH, text: /<title>[^<]{0,40}done[- ]?hub/i }),

  strong('sub2api', { path: SETUP_PATH, has: ['code', 'data.needs_setup', 'data.step'] }),
  strong('sub2api', { path: SETTINGS_PATH, has: ['code', 'data.site_name'] }),
  weak('sub2api', { path: HEALTH_PATH, member: 'status', matches: /^ok$/ }),
  hint('sub2api', { path: LISTING_PATH, member: 'code', matches: /^API_KEY_REQUIRED$/ }),

  strong('claude-relay-service', { path: HEALTH_PATH, member: 'service', matches: /^claude-relay-service$/ }),
  weak('claude-relay-service', { landsOn: '/admin-next/' }),

  strong('litellm', { header: 'x-litellm-version' }),
  strong('litellm', { path: LIVELINESS_PATH, text: /^"?I'm alive!"?$/ }),
  hint('litellm', { path: LANDING_PATH, text: /<title>LiteLLM\b/i }),
  hint('litellm', { errorType: 'auth_error' }),
]

/** Program → the program it was forked from, whose marks it shows too. A fork that is found hides its ancestors. */
export const PARENTS: Partial<Record<Software, Software>> = {
  veloera: 'new-api',
  'new-api': 'one-api',
  'done-hub': 'one-hub',
  'one-hub': 'one-api',
}

/** Where the version is; the first found wins. */
export const VERSIONS: readonly {
  of: readonly Software[]
  header?: string
  path?: string
  member?: string
}[] = [
  { of: ['new-api', 'veloera'], header: 'x-new-api-version' },
  { of: ['litellm'], header: 'x-litellm-version' },
  { of: ['one-api', 'new-api', 'veloera', 'one-hub', 'done-hub'], path: STATUS_PATH, member: 'data.version' },
  { of: ['claude-relay-service'], path: HEALTH_PATH, member: 'version' },
  { of: ['sub2api'], path: SETTINGS_PATH, member: 'data.version' },
]
