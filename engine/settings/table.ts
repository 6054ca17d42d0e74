/**
 * Every environment variable, one row each: those of the reference (spec 10) and our own.
 *
 *      kind  state  name         default  help
 *     [port, built, 'GRPC_PORT', '8081',  'gRPC: decisions and health'],
 *
 * This is the only place that knows a setting: its type in `Settings`, the parser, the checks at the start,
 * `--help` and the table in the README all follow. A default is written as an operator would write it.
 * State: what happens when this version meets the variable.
 *     built   it does what the help says
 *     inert   accepted for those who switch, and never has an effect: set to something else than its default it is a warning
 *     later   not there yet: set to something else than its default it is a warning, and has no effect
 *     refuse  not there yet, and to go on without it would weaken security or send data elsewhere: no start
 */
import type { Kind } from './values.ts'
import {
  BadValue,
  bool,
  duration,
  exactWord,
  float,
  int,
  intOrCores,
  list,
  map,
  matching,
  oneOfAnyCase,
  oneOfOrLast,
  path,
  string,
} from './values.ts'

export type State = 'built' | 'inert' | 'later' | 'refuse'
const built = 'built'
const inert = 'inert'
const later = 'later'
const refuse = 'refuse'

const MIB = 2 ** 20
const TIB = 2 ** 40

const token = matching(/^\S*$/, 'a text without white space, which callers could not send')
const urlPath = matching(/^\/[^\s?#]*$/, 'a path, which begins with a slash')
const port = int(0, 65_535)
const natural = int(0, 2 ** 31 - 1)
const count = int(0, 65_535)
const workers = intOrCores(1, 256)
const bodyBytes = int(1, 256 * MIB) // a body becomes one string, and V8's end at 512 MiB
const cacheBytes = int(0, TIB)
const memoryBytes = int(MIB, 2048 * MIB) // what one table can have
const ratio = float(0, 1)
const factor = float(0)
const span = duration()
const instant = duration(0, 1) // longer would be a busy core, or a thread that serves nobody
const wait = duration(1) // 0 would mean no time at all
const level = describingErrors(
  oneOfAnyCase('panic', 'fatal', 'error', 'warn', 'warning', 'info', 'debug', 'trace'),
  (text, allowed) =>
    `Could not parse log level. not a valid logrus Level: ${JSON.stringify(text)}; it is ${allowed}`,
)
const format = oneOfOrLast('json', 'text')
const frontend = exactWord('http2', 'grpc-js')
const source = describingErrors(exactWord('FILE', 'GRPC_XDS_SOTW'), (text, allowed) => {
  return `Invalid setting for ConfigType: ${text}; it is ${allowed}`
})
const backend = describingErrors(exactWord('redis', 'memory', 'memcache'), (text, allowed) => {
  return `Invalid setting for BackendType: ${text}; it is ${allowed}`
})
const socketType = exactWord('tcp', 'tcp4', 'tcp6', 'unix') // Go's names of networks
const redisType = describingErrors(oneOfAnyCase('single', 'sentinel', 'cluster'), (text, allowed) => {
  return `Unrecognized redis type ${text}; it is ${allowed}`
})
const parallelism = describingErrors(count, (text, allowed) => {
  return text.startsWith('-') ? 'redis cluster pipeline parallelism must be >= 0' : allowed
})
const addressIn = exactWord('x-forwarded-for', 'forwarded', 'cf-connecting-ip', 'x-real-ip')
const prefix = int(48, 128)
const interval = int(60, 3_600)
const probes = int(1, 256)
const repeats = int(0, 5)
const millis = int(1, 60_000)
const region = exactWord('overseas', 'cn')
const shots = exactWord('auto', 'true', 'false')
const queued = int(1, 100)
const running = int(1, 16)
const onEmpty = oneOfOrLast('CREATE', 'ERROR', 'WAIT')
const otlp = describingErrors(exactWord('http', 'grpc'), (text, allowed) => {
  return `Invalid otlptrace client protocol: ${text}; it is ${allowed}`
})

/** Large, many places, and no relay: when two of three are silent, it is us. */
const CONNECTIVITY_CHECK_URLS =
  'https://www.cloudflare.com/cdn-cgi/trace,https://www.gstatic.com/generate_204,https://www.apple.com/library/test/success.html'

type Cells = readonly [kind: Kind<unknown>, state: State, name: string, preset: string, help: string]

// biome-ignore format: the columns are the table
const table = {
  Ports: [
    [string,      built,  'HOST', '0.0.0.0', 'address of the HTTP port'],
    [port,        built,  'PORT', '8080', 'HTTP: /json and /healthcheck'],
    [string,      built,  'GRPC_HOST', '0.0.0.0', 'address of the gRPC port'],
    [port,        built,  'GRPC_PORT', '8081', 'gRPC: decisions and health'],
    [string,      built,  'GRPC_UDS', '', 'unix socket instead of host and port; one worker has it'],
    [frontend,    built,  'GRPC_FRONTEND', 'http2', 'the server behind the gRPC port: our own, or the library'],
    [span,        built,  'GRPC_MAX_CONNECTION_AGE', '24h', 'older connections are asked to end; 0 = none'],
    [span,        built,  'GRPC_MAX_CONNECTION_AGE_GRACE', '1h', 'and cut when calls still run after it'],
    [bodyBytes,   built,  'HTTP_BODY_MAX_BYTES', '4194304', 'a longer request body is refused (4 MiB)'],
    [string,      built,  'DEBUG_HOST', '0.0.0.0', 'address of the debug port'],
    [port,        built,  'DEBUG_PORT', '6070', 'for operators: rules, statistics, profiles'],
    [token,       built,  'DEBUG_TOKEN', '', 'what its callers must show; empty = nothing'],
    [list,        built,  'DEBUG_ALLOWED_HOSTS', '', 'names it may be asked by without a token, beside its own; * = any'],
  ],
  'TLS on the gRPC port': [
    [bool,        built,  'GRPC_SERVER_USE_TLS',    'false', 'take TLS connections only'],
    [path,        built,  'GRPC_SERVER_TLS_CERT',   '', 'certificate chain, PEM, in the folder of the key'],
    [path,        built,  'GRPC_SERVER_TLS_KEY',    '', 'its key, PEM; all three files are read again when they change'],
    [path,        built,  'GRPC_CLIENT_TLS_CACERT', '', "callers must show a certificate of this CA or the system's"],
    [string,      built,  'GRPC_CLIENT_TLS_SAN',    '', 'and it must hold this DNS name or IP address'],
  ],
  Process: [
    [workers,     built,  'WORKERS',       'cores', 'threads that answer requests'],
    [span,        built,  'DRAIN_DELAY',   '0',     'at SIGTERM: time from unhealthy to closed ports'],
    [span,        built,  'DRAIN_TIMEOUT', '30s',   'then the longest wait for requests in flight'],
    [level,       built,  'LOG_LEVEL',     'WARN',  'this and everything worse is logged'],
    [format,      built,  'LOG_FORMAT',    'text',  'how a line of it looks'],
  ],
  'Where the rules come from': [
    [source,      built,  'CONFIG_TYPE', 'FILE', 'files, or a management server'],
    [path,        built,  'RUNTIME_ROOT', '/srv/runtime_data/current', 'folder of the rules'],
    [string,      built,  'RUNTIME_SUBDIRECTORY', '', 'folder below RUNTIME_ROOT'],
    [string,      built,  'RUNTIME_APPDIRECTORY', 'config', 'folder below that one; its files are rules'],
    [bool,        built,  'RUNTIME_IGNOREDOTFILES', 'false', 'skip dot files (Kubernetes: true)'],
    [bool,        built,  'RUNTIME_WATCH_ROOT', 'true', 'reload when the link RUNTIME_ROOT moves'],
    [bool,        built,  'MERGE_DOMAIN_CONFIG', 'false', 'several files may feed one domain'],
    [bool,        built,  'FORCE_START_WITHOUT_INITIAL_CONFIG', 'false', 'open ports without rules'],
    [bool,        built,  'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED', 'false', 'needs a domain to be healthy'],
  ],
  'Rules from a management server (xDS)': [
    [string,      built,  'CONFIG_GRPC_XDS_SERVER_URL', 'localhost:18000', 'host:port of the server'],
    [span,        inert,  'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL', '3s', 'no effect: connects are repeated after 1s, then after waits that double'],
    [bool,        built,  'CONFIG_GRPC_XDS_SERVER_USE_TLS', 'false', 'TLS to the server'],
    [path,        built,  'CONFIG_GRPC_XDS_SERVER_TLS_CACERT', '', "its CA, beside the system's"],
    [string,      built,  'CONFIG_GRPC_XDS_SERVER_TLS_SAN', '', 'the name its certificate must hold'],
    [path,        built,  'CONFIG_GRPC_XDS_CLIENT_TLS_CERT', '', 'our certificate'],
    [path,        built,  'CONFIG_GRPC_XDS_CLIENT_TLS_KEY', '', 'its key'],
    [map,         built,  'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS', '', 'on every call: k:v,k2:v2'],
    [string,      built,  'CONFIG_GRPC_XDS_NODE_ID', 'default', 'the node we say we are'],
    [string,      built,  'CONFIG_GRPC_XDS_NODE_METADATA', '', 'its metadata: k=v,k2=v2'],
    [wait,        built,  'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL', '10s', 'first wait after a stream has ended; it doubles'],
    [wait,        built,  'XDS_CLIENT_BACKOFF_MAX_INTERVAL', '60s', 'longest wait'],
    [factor,      inert,  'XDS_CLIENT_BACKOFF_RANDOM_FACTOR', '0.5', 'no effect: a wait is doubled'],
    [bool,        built,  'XDS_CLIENT_BACKOFF_JITTER', 'true', 'spread the waits at random'],
    [natural,     built,  'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES', '0', 'longest message taken; 0 = 4 MiB'],
  ],
  Decisions: [
    [bool,        built,  'SHADOW_MODE', 'false', 'decide and count, refuse nothing'],
    [bool,        built,  'QUOTA_MODE', 'false', 'every rule is a quota rule'],
    [ratio,       built,  'NEAR_LIMIT_RATIO', '0.8', 'above this share of a limit, hits are near it'],
    [bool,        built,  'LIMIT_RESPONSE_HEADERS_ENABLED', 'false', 'answer with the headers below'],
    [string,      built,  'LIMIT_LIMIT_HEADER', 'RateLimit-Limit', 'the limit'],
    [string,      built,  'LIMIT_REMAINING_HEADER', 'RateLimit-Remaining', 'what is left of it'],
    [string,      built,  'LIMIT_RESET_HEADER', 'RateLimit-Reset', 'seconds until its window ends'],
    [bool,        built,  'RESPONSE_DYNAMIC_METADATA', 'false', "answer with rules' metadata"],
  ],
  Counters: [
    [backend,     built,  'BACKEND_TYPE', 'redis', 'where they live; memory when no REDIS_* or MEMCACHE_* is set'],
    [memoryBytes, built,  'MEMORY_STORE_BYTES', '67108864', 'size of the memory store (64 MiB)'],
    [string,      built,  'CACHE_KEY_PREFIX', '', 'opens every counter key'],
    [natural,     built,  'EXPIRATION_JITTER_MAX_SECONDS', '300', 'expiries are spread so wide'],
    [cacheBytes,  built,  'LOCAL_CACHE_SIZE_IN_BYTES', '0', 'remember over-limit keys; 0 = off'],
    [bool,        built,  'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', 'false', 'where one limit is over, others get no hits'],
  ],
  Redis: [
    [string,      built,  'REDIS_URL', '/var/run/nutcracker/ratelimit.sock', 'host:port, socket, redis://, or a list'],
    [socketType,  built,  'REDIS_SOCKET_TYPE', 'unix', 'tcp when REDIS_URL is host:port'],
    [redisType,   built,  'REDIS_TYPE', 'SINGLE', 'sentinel: master,host:port,…; cluster: host:port,…'],
    [string,      built,  'REDIS_AUTH', '', 'password, or user:password; wins over redis://'],
    [string,      built,  'REDIS_SENTINEL_AUTH', '', 'the same for the sentinels'],
    [span,        built,  'REDIS_TIMEOUT', '10s', 'longest wait for a connection'],
    [wait,        built,  'REDIS_OPERATION_TIMEOUT', '1s', 'longest trip before an error, also of hits that wait their turn; REDIS_TIMEOUT where only that is set'],
    [span,        built,  'REDIS_STARTUP_INITIAL_INTERVAL', '1s', 'at the start: first wait before a retry'],
    [span,        built,  'REDIS_STARTUP_MAX_INTERVAL', '30s', 'longest wait'],
    [span,        built,  'REDIS_STARTUP_MAX_ELAPSED_TIME', '0', 'give up after it; 0 = never'],
    [bool,        built,  'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION', 'false', 'unhealthy while no worker has one to an instance'],
    [count,       inert,  'REDIS_POOL_SIZE', '10', 'no effect: each worker shares one connection per node'],
    [onEmpty,     built,  'REDIS_POOL_ON_EMPTY_BEHAVIOR', 'WAIT', '64 batches in flight: hits wait (ERROR: less)'],
    [span,        built,  'REDIS_POOL_ON_EMPTY_WAIT_DURATION', '1s', 'longest such wait with ERROR'],
    [span,        inert,  'REDIS_PIPELINE_WINDOW', '0', 'no effect: one turn of the event loop is one batch'],
    [count,       inert,  'REDIS_PIPELINE_LIMIT', '0', 'no effect: one turn of the event loop is one batch'],
    [parallelism, inert,  'REDIS_CLUSTER_PIPELINE_PARALLELISM', '1', 'no effect: all nodes at once'],
    [instant,     built,  'REDIS_BUSY_POLL', '40us', 'how long to poll for a reply before sleeping, at most 1ms; 0 = never'],
    [instant,     built,  'REDIS_REPLY_COALESCE_DELAY', '0', 'how long to block the event loop to coalesce Redis replies, at most 1ms; 0 = never'],
    [bool,        built,  'REDIS_TLS', 'false', 'TLS to Redis and the sentinels'],
    [path,        built,  'REDIS_TLS_CACERT', '', "its CA, beside the system's"],
    [path,        built,  'REDIS_TLS_CLIENT_CERT', '', 'our certificate, if its key is given too'],
    [path,        built,  'REDIS_TLS_CLIENT_KEY', '', 'its key'],
    [bool,        built,  'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION', 'false', 'do not compare host names'],
  ],
  'A second Redis for limits per second': [
    [bool,        built,  'REDIS_PERSECOND', 'false', 'use it; the others as above'],
    [string,      built,  'REDIS_PERSECOND_URL', '/var/run/nutcracker/ratelimitpersecond.sock', ''],
    [socketType,  built,  'REDIS_PERSECOND_SOCKET_TYPE', 'unix', ''],
    [redisType,   built,  'REDIS_PERSECOND_TYPE', 'SINGLE', ''],
    [string,      built,  'REDIS_PERSECOND_AUTH', '', ''],
    [string,      built,  'REDIS_PERSECOND_SENTINEL_AUTH', '', ''],
    [span,        built,  'REDIS_PERSECOND_TIMEOUT', '10s', ''],
    [wait,        built,  'REDIS_PERSECOND_OPERATION_TIMEOUT', '1s', ''],
    [count,       inert,  'REDIS_PERSECOND_POOL_SIZE', '10', 'no effect: see REDIS_POOL_SIZE'],
    [onEmpty,     built,  'REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR', 'WAIT', ''],
    [span,        built,  'REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION', '1s', ''],
    [span,        inert,  'REDIS_PERSECOND_PIPELINE_WINDOW', '0', 'no effect: see REDIS_PIPELINE_WINDOW'],
    [count,       inert,  'REDIS_PERSECOND_PIPELINE_LIMIT', '0', 'no effect: see REDIS_PIPELINE_LIMIT'],
    [parallelism, inert,  'REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM', '1', 'no effect: see REDIS_CLUSTER_PIPELINE_PARALLELISM'],
    [bool,        built,  'REDIS_PERSECOND_TLS', 'false', 'with the files of REDIS_TLS'],
  ],
  memcached: [
    [list,        built,  'MEMCACHE_HOST_PORT', '', 'host:port or socket path of every node'],
    [string,      built,  'MEMCACHE_SRV', '', 'or the DNS record that names them'],
    [span,        built,  'MEMCACHE_SRV_REFRESH', '0', 'how often it is read again; 0 = never'],
    [count,       inert,  'MEMCACHE_MAX_IDLE_CONNS', '2', 'no effect: each worker has one connection per node'],
    [bool,        built,  'MEMCACHE_ERRORS_AS_ZERO', 'false', 'where reading fails, the count is 0: no error'],
    [bool,        built,  'MEMCACHE_TLS', 'false', 'TLS to the nodes'],
    [path,        built,  'MEMCACHE_TLS_CACERT', '', "their CA, beside the system's"],
    [path,        built,  'MEMCACHE_TLS_CLIENT_CERT', '', 'our certificate'],
    [path,        built,  'MEMCACHE_TLS_CLIENT_KEY', '', 'its key'],
    [bool,        built,  'MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION', 'false', 'do not compare host names'],
  ],
  Statistics: [
    [bool,        built,  'DISABLE_STATS', 'false', 'send none'],
    [bool,        built,  'USE_STATSD', 'true', 'send them to statsd; false where another sink is chosen'],
    [bool,        built,  'USE_DOG_STATSD', 'false', 'send them to DogStatsD'],
    [bool,        built,  'USE_PROMETHEUS', 'false', 'let Prometheus fetch them'],
    [map,         built,  'EXTRA_TAGS', '', 'tags of every one: k:v,k2:v2'],
    [wait,        built,  'STATS_FLUSH_INTERVAL', '10s', 'how often they are sent'],
    [string,      built,  'STATSD_HOST', 'localhost', 'host of statsd or DogStatsD; of DogStatsD also unixstream:///path'],
    [port,        built,  'STATSD_PORT', '8125', 'its port'],
    [string,      built,  'STATSD_PROTOCOL', 'tcp', 'tcp or udp, of statsd'],
    [list,        built,  'USE_DOG_STATSD_MOGRIFIERS', '', 'names of DogStatsD rewriters, in order'],
    [string,      built,  'PROMETHEUS_ADDR', ':9090', 'host:port that Prometheus asks'],
    [urlPath,     built,  'PROMETHEUS_PATH', '/metrics', 'and the path'],
    [path,        built,  'PROMETHEUS_MAPPER_YAML', '', 'how names become labels; empty = built in'],
    [bool,        built,  'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS', 'false', 'not in seconds'],
    [bool,        built,  'PROMETHEUS_NATIVE_SERIES', 'false', 'series of our own beside those: domain and rule apart, limits, decision times'],
  ],
  Tracing: [
    [bool,        built,  'TRACING_ENABLED',             'false', 'send traces by OTLP; OTEL_* say where to'],
    [otlp,        built,  'TRACING_EXPORTER_PROTOCOL',   'http', 'how'],
    [ratio,       built,  'TRACING_SAMPLING_RATE',       '1', 'share of the traces that is sent, 0 to 1'],
    [string,      built,  'TRACING_SERVICE_NAME',        'RateLimit', 'service.name'],
    [string,      built,  'TRACING_SERVICE_NAMESPACE',   '', 'service.namespace'],
    [string,      built,  'TRACING_SERVICE_INSTANCE_ID', '', 'service.instance.id; empty = a random UUID'],
  ],
  Monitor: [
    [bool,        built,  'MONITOR_ENABLED', 'false', 'the public monitor of relay sites, beside the service'],
    [string,      built,  'MONITOR_ADDR', '0.0.0.0:8090', 'where it listens'],
    [path,        built,  'MONITOR_DATA_DIR', './data', 'folder of its database'],
    [path,        built,  'CATALOGUE_PATH', './catalogue.yaml', 'the sites it looks at: a file, or a folder of *.yaml'],
    [string,      built,  'PUBLIC_BASE_URL', '', 'where the public finds it; empty = links without a host'],
    [string,      built,  'SUPPORT_EMAIL', '', 'whom callers may write to; empty = nobody is named'],
    [bool,        built,  'API_SHARED_CACHE', 'false', 'answers may be kept by a CDN that drops X-RateLimit-*'],
    [bool,        built,  'RATELIMIT_DRAFT_FIELDS', 'true', 'RateLimit and RateLimit-Policy beside X-RateLimit-*'],
    [list,        built,  'TRUSTED_PROXIES', '', 'ranges whose word on the client address is taken'],
    [addressIn,   built,  'CLIENT_IP_HEADER', 'x-forwarded-for', 'the header that has it'],
    [bool,        built,  'PROXY_PROTOCOL', 'false', 'or the PROXY protocol, from trusted proxies only'],
    [prefix,      built,  'IPV6_PREFIX', '64', 'so many bits of an IPv6 address are one client'],
  ],
  'Monitor: probes': [
    [bool,        built,  'PROBER_ENABLED', 'true', 'look at the sites; false = serve what is known'],
    [interval,    built,  'PROBE_INTERVAL_S', '300', 'seconds between two looks at a site'],
    [probes,      built,  'PROBE_CONCURRENCY', '32', 'light probes at once'],
    [repeats,     built,  'PROBE_RETRIES', '2', 'so often a failure is repeated before it counts'],
    [millis,      built,  'PROBE_SLOW_MS', '3000', 'a first byte later than this is degraded'],
    [list,        built,  'CONNECTIVITY_CHECK_URLS', CONNECTIVITY_CHECK_URLS, 'what tells our own broken network from a broken site: two must answer, of fewer all; empty = nothing'],
    [string,      built,  'PROBE_PORTS', '80,443,3000,8000,8080,8443', 'ports that may be connected to'],
    [string,      built,  'EGRESS_DENY', '', 'ranges that may not, beside all that are not public'],
    [string,      built,  'NAT64_PREFIX', '', 'a /96 whose embedded IPv4 address is judged instead'],
    [string,      built,  'EGRESS_PROXY', '', 'http://[user:password@]host:port: probes go there by CONNECT, and names are judged there; an agent calls its server without it'],
    [path,        built,  'ASN_DB', 'data/ip2asn-combined.tsv.gz', 'whose network an address is in; `sluice monitor asn install`'],
    [string,      built,  'VANTAGE_NAME', 'main', 'this place that probes'],
    [region,      built,  'VANTAGE_REGION', 'overseas', 'where it is'],
    [string,      built,  'VANTAGE_COUNTRY', '', 'two letters'],
    [string,      built,  'AGENT_ADDR', '', 'where agents of other places report, like 0.0.0.0:8091; empty = nowhere'],
    [string,      built,  'AGENT_SERVER', '', 'of an agent: the address of its server, like https://monitor.example.org:8091'],
    [string,      built,  'AGENT_TOKEN', '', 'of an agent: what `sluice monitor vantage create` has shown'],
    [path,        built,  'AGENT_TOKEN_FILE', '', 'of an agent: or the file that has it'],
    [shots,       later,  'SCREENSHOTS_ENABLED', 'auto', 'monthly pictures, where there is a browser'],
  ],
  'Monitor: detections': [
    [bool,        built,  'DETECTIONS_ENABLED', 'true', 'anybody may have an address looked at'],
    [natural,     built,  'DETECTION_REUSE_S', '600', 'seconds for which the same answer is given again'],
    [queued,      built,  'DETECTION_QUEUE', '100', 'that wait'],
    [running,     built,  'DETECTION_CONCURRENCY', '4', 'that run'],
    [bool,        refuse, 'DETECTION_ALLOW_KEYS', 'false', 'with a key of the caller'],
  ],
} as const satisfies Record<string, readonly Cells[]>

/** Names of an older document, accepted as well, where no prefix below tells them; null = it had none. */
const OLDER_NAMES: Partial<Record<SettingName, string | null>> = {
  LOCAL_CACHE_SIZE_IN_BYTES: 'LocalCacheSizeInBytes',
  USE_STATSD: 'USE_PUSH_STATS',
  USE_DOG_STATSD: 'USE_TAGGED_STATS',
  USE_DOG_STATSD_MOGRIFIERS: 'TAGGED_STATS_MOGRIFIERS',
  USE_PROMETHEUS: 'USE_PULLMETRICS',
  REDIS_OPERATION_TIMEOUT: null,
  REDIS_PERSECOND_OPERATION_TIMEOUT: null,
  REDIS_STARTUP_INITIAL_INTERVAL: null,
  REDIS_STARTUP_MAX_INTERVAL: null,
  REDIS_STARTUP_MAX_ELAPSED_TIME: null,
  MEMCACHE_ERRORS_AS_ZERO: null,
}
const OLDER_PREFIXES = [
  ['REDIS_', 'KVSTORE_'],
  ['MEMCACHE_', 'MEMSTORE_'],
  ['PROMETHEUS_', 'PULLMETRICS_'],
] as const

/** The same kind with another sentence for a text that is not allowed: the one that operators of the reference know. */
function describingErrors<T>(kind: Kind<T>, sentence: (text: string, allowed: string) => string): Kind<T> {
  return {
    ...kind,
    parse(text) {
      try {
        return kind.parse(text)
      } catch (cause) {
        throw new BadValue(sentence(text, kind.allowed), { cause })
      }
    },
  }
}

/** Families of variables with a name in the middle (spec 7.5). They are no part of `Settings`. */
export const families: readonly Family[] = [
  family('PATTERN', 'string', 'regular expression: which statistics it rewrites'),
  family('NAME', 'string', 'their new name; $1 is the first group of the pattern'),
  family('TAGS', 'map', 'tags they get: k:v,k2:v2'),
]

export interface Family {
  readonly name: string
  readonly older: string
  readonly group: string
  readonly kindName: string
  readonly state: State
  readonly help: string
  readonly matches: RegExp
}

function family(suffix: string, kindName: string, help: string): Family {
  return {
    name: `DOG_STATSD_MOGRIFIER_<NAME>_${suffix}`,
    older: `TAGGED_STATS_MOGRIFIER_<NAME>_${suffix}`,
    group: 'Statistics',
    kindName,
    state: built,
    help,
    matches: new RegExp(`^(DOG_STATSD|TAGGED_STATS)_MOGRIFIER_.+_${suffix}$`),
  }
}

type AnyCells = (typeof table)[keyof typeof table][number]
type SettingValue<C> = C extends readonly [Kind<infer T>, ...unknown[]] ? T : never

export type SettingName = AnyCells[2]

/** What every variable says. Durations are milliseconds. Frozen, and safe to post to a worker. */
export type Settings = { readonly [C in AnyCells as C[2]]: SettingValue<C> }

/** One variable, as the parser and the help see it. */
export interface Row {
  readonly name: SettingName
  readonly older: string | null // null = has only one name
  readonly group: string
  readonly kind: Kind<unknown>
  readonly state: State
  readonly default: string
  readonly help: string
}

const groups: [string, readonly (Cells & { 2: SettingName })[]][] = Object.entries(table)

export const rows: readonly Row[] = groups.flatMap(([group, cells]) =>
  cells.map(([kind, state, name, preset, help]) => ({
    name,
    older: olderName(name),
    group,
    kind,
    state,
    default: preset,
    help,
  })),
)

function olderName(name: SettingName): string | null {
  const exception = OLDER_NAMES[name]
  if (exception !== undefined) return exception
  const prefix = OLDER_PREFIXES.find(([real]) => name.startsWith(real))
  return prefix ? prefix[1] + name.slice(prefix[0].length) : null
}
