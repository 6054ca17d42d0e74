/**
 * What the hostile-input test (test/scripts/dev/patterns.test.ts) cannot read from a regular expression itself.
 *
 * Every expression in the sources is run over hostile texts of TEXT_CHARS_MAX characters, so a new one is tested without an
 * entry here. It needs one only if it is built from text at run time, or is slow but reads no text from outside.
 * `npm run check` reports a built one without an entry, and an entry whose expression is gone.
 */
// biome-ignore-all lint/suspicious/noTemplateCurlyInString: sources, as text
import { rows } from '../../engine/settings/table.ts'
import {
  POLL_REQUEST,
  POLL_RESPONSE,
  RESULT,
  RESULTS_REQUEST,
  RESULTS_RESPONSE,
} from '../../monitor/agent/wire.ts'
import { UUID_V7 } from '../../monitor/api/schema/build.ts'
import { ENDPOINTS } from '../../monitor/api/schema/endpoints.ts'
import { components } from '../../monitor/api/schema/resources.ts'
import { monitorRows } from '../../monitor/settings.ts'

/** The longest text from outside that reaches an expression: the body of a listing (monitor/egress/limits.ts). */
export const TEXT_CHARS_MAX = 1_048_576

export type PatternNote = { file: string; text: string } & (
  | { trusted: string } // the source of the text: an operator, or this machine
  | { built: () => RegExp[] } // all that can be built there
)

const raw = String.raw
const SETTING = 'a setting'
const CERTIFICATES = 'a certificate file that a setting names'
const PROC = 'a file of /proc'

// biome-ignore format: a table
export const PATTERN_NOTES: readonly PatternNote[] = [
  { file: 'engine/config/yaml-fast-path.ts', text: "new RegExp(LINE, 'y')", trusted: 'a rule file' },
  { file: 'engine/stores/memcached/server-list.ts', text: raw`/^_(.+?)\._(.+?)\.(.+)$/`, trusted: SETTING },
  { file: 'engine/stores/redis/address.ts', text: raw`/(rediss?:\/\/)(?:(?!,rediss?:\/\/).)*@/gis`, trusted: SETTING },
  { file: 'engine/stores/tls.ts', text: raw`/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g`, trusted: CERTIFICATES },
  { file: 'engine/settings/table.ts', text: 'new RegExp(`^(DOG_STATSD|TAGGED_STATS)_MOGRIFIER_.+_${suffix}$`)', trusted: SETTING },
  { file: 'engine/settings/values.ts', text: raw`/^[+-]?(?:[0-9](?:_?[0-9])*\.?(?:[0-9](?:_?[0-9])*)?|\.[0-9](?:_?[0-9])*)(?:[eE][+-]?[0-9]+)?$/`, trusted: SETTING },
  { file: 'engine/settings/values.ts', text: raw`/^\+?(?:0|(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:ns|us|µs|μs|ms|s|m|h))+)$/`, trusted: SETTING },
  { file: 'engine/settings/values.ts', text: raw`/([0-9]*)\.?([0-9]*)(ns|us|µs|μs|ms|s|m|h)/g`, trusted: SETTING },
  { file: 'engine/settings/written-names.ts', text: "new RegExp(`\\\\b(?:${[...olderNames.keys()].join('|')})\\\\b`, 'g')", built: settingNames },
  { file: 'monitor/detections/detection-queue.ts', text: 'new RegExp(UUID_V7)', built: () => [new RegExp(UUID_V7)] },
  { file: 'monitor/api/schema/json-schema.ts', text: "new RegExp(pattern, 'u')", built: schemaPatterns },
  { file: 'transports/grpc/tls-files.ts', text: raw`/-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g`, trusted: CERTIFICATES },
  { file: 'transports/metrics/container.ts', text: 'new RegExp(`(${ID})(?:\\\\.scope)?$`)', trusted: PROC },
  { file: 'transports/metrics/container.ts', text: 'new RegExp(`/([^\\\\s/]+)/(${ID})/\\\\S*hostname`)', trusted: PROC },
  { file: 'transports/xds/proxy.ts', text: raw`/^(?:\[(.+)\]|([^:]*|.*:.*:.*))(?::(\d+))?$/`, trusted: 'NO_PROXY' },
]

/** Every `pattern` of the schemas of requests, of responses and of agents' results. */
function schemaPatterns(): RegExp[] {
  const found = new Set<string>()
  const schemas = [
    components(true),
    ENDPOINTS,
    POLL_RESPONSE,
    POLL_REQUEST,
    RESULT,
    RESULTS_RESPONSE,
    RESULTS_REQUEST,
  ]
  JSON.stringify(schemas, (name, value) => {
    if (name === 'pattern' && typeof value === 'string') found.add(value)
    return value
  })
  return [...found].map((pattern) => new RegExp(pattern, 'u'))
}

/** The longest alternation: every setting, as if all were set under their older names. */
function settingNames(): RegExp[] {
  return [new RegExp(`\\b(?:${[...rows, ...monitorRows].map(({ name }) => name).join('|')})\\b`, 'g')]
}
