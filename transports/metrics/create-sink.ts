/**
 * Creates the selected sink (spec 7.3): none with DISABLE_STATS, else DogStatsD, else statsd, else Prometheus, else printing.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import type { Sink, Snapshot } from './sink.ts'
import { cleanTags, reservedTagsIn } from './tags.ts'

export type SinkName = 'none' | 'dogstatsd' | 'statsd' | 'prometheus' | 'printing'

type StatsSettings = Pick<
  Settings,
  | 'DISABLE_STATS'
  | 'USE_DOG_STATSD'
  | 'USE_STATSD'
  | 'USE_PROMETHEUS'
  | 'EXTRA_TAGS'
  | 'STATSD_HOST'
  | 'STATSD_PORT'
  | 'STATSD_PROTOCOL'
  | 'USE_DOG_STATSD_MOGRIFIERS'
  | 'PROMETHEUS_ADDR'
  | 'DEBUG_ALLOWED_HOSTS'
  | 'PROMETHEUS_PATH'
  | 'PROMETHEUS_MAPPER_YAML'
  | 'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS'
>

export interface SinkOptions {
  settings: StatsSettings
  hasNative: boolean // native series beside the compatible ones, for Prometheus
  env: Readonly<Record<string, string | undefined>> // for mogrifiers and DD_*
  read: () => Promise<Snapshot>
  log: Log
}

/** Throws ConfigurationError if more than one of three is on. An unset USE_STATSD is off beside another one. */
export function selectSink(settings: StatsSettings): SinkName {
  const { DISABLE_STATS, USE_DOG_STATSD, USE_STATSD, USE_PROMETHEUS } = settings
  if (DISABLE_STATS) return 'none'
  const sinks = Object.entries({ USE_DOG_STATSD, USE_STATSD, USE_PROMETHEUS })
  const chosen = sinks.filter(([, isOn]) => isOn).map(([name]) => name)
  if (chosen.length > 1) {
    throw new ConfigurationError({
      code: 'STATS_SINKS',
      what: 'Error: unable to use more than one stats sink at the same time.',
      fix: `${chosen.join(' and ')} are true: set all but one of them to false.`,
      exitCode: 2,
    })
  }
  if (USE_DOG_STATSD) return 'dogstatsd'
  if (USE_STATSD) return 'statsd'
  return USE_PROMETHEUS ? 'prometheus' : 'printing'
}

/** Loads only the selected sink. Null for none. Rejects with ConfigurationError for invalid settings. */
export async function createSink({ settings, hasNative, env, read, log }: SinkOptions): Promise<Sink | null> {
  const { STATSD_HOST: host, STATSD_PORT: port } = settings
  const name = selectSink(settings)
  const tags = cleanTags(settings.EXTRA_TAGS)
  if (name === 'none') return null
  if (name === 'printing') return (await import('./printing.ts')).printingSink(tags, log)
  if (name === 'statsd') {
    const protocol = parseProtocol(settings.STATSD_PROTOCOL)
    if (host.includes('://')) throw noSocket(host)
    return (await import('./statsd.ts')).statsdSink({ host, port, protocol, tags, log })
  }
  if (name === 'dogstatsd') {
    const [{ dogStatsdSink, globalsFrom }, { loadMogrifiers }] = await Promise.all([
      import('./dogstatsd.ts'),
      import('./mogrifiers.ts'),
    ])
    const mogrify = loadMogrifiers(settings.USE_DOG_STATSD_MOGRIFIERS, env)
    return dogStatsdSink({ host, port, tags, mogrify, globals: globalsFrom(env), log })
  }
  const { PrometheusSink } = await import('./prometheus.ts')
  return new PrometheusSink({
    address: settings.PROMETHEUS_ADDR,
    path: settings.PROMETHEUS_PATH,
    allowedHosts: settings.DEBUG_ALLOWED_HOSTS,
    mapperFile: settings.PROMETHEUS_MAPPER_YAML,
    isInMilliseconds: settings.PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS,
    hasNative,
    tags,
    read,
    log,
  })
}

/** How often a reserved name is used in EXTRA_TAGS: the counter `reserved_tag`. */
export function reservedTagsCount(settings: Pick<Settings, 'EXTRA_TAGS'>): number {
  return reservedTagsIn(cleanTags(settings.EXTRA_TAGS))
}

function noSocket(host: string): ConfigurationError {
  return new ConfigurationError({
    code: 'STATSD_SOCKET',
    where: `STATSD_HOST=${host}`,
    what: 'is no host; unix sockets are for DogStatsD alone.',
    fix: 'Write the host alone, or set USE_STATSD=false and USE_DOG_STATSD=true.',
    exitCode: 2,
  })
}

/** Network names as in Go. */
function parseProtocol(text: string): 'tcp' | 'udp' {
  const network = /^(tcp|udp)[46]?$/.exec(text)?.[1]
  if (network === 'tcp' || network === 'udp') return network
  throw new ConfigurationError({
    code: 'STATSD_PROTOCOL_UNKNOWN',
    where: `STATSD_PROTOCOL=${text}`,
    what: 'is not known.',
    fix: 'Write tcp or udp; unix sockets are for DogStatsD alone (STATSD_HOST=unixstream:///path).',
    exitCode: 2,
  })
}
