/**
 * The environment variables of the rate limiter, one row each: those of envoyproxy/ratelimit (spec 10) and those of Sluice.
 * The monitor has a table of the same kind, monitor/settings.ts.
 *
 *      kind  state  name         default  help
 *     [port, built, 'GRPC_PORT', '8081',  'gRPC: decisions and health'],
 *
 * The type `Settings`, the parser, `--help` and docs/settings.md derive from it. A default is written as an
 * operator would write it. The state says what happens when the variable is set:
 *     built   it has the effect that the help describes
 *     inert   accepted for compatibility, never has an effect; a value other than the default is a warning
 *     later   not implemented yet; a value other than the default is a warning
 *     refuse  not implemented yet, and ignoring it would weaken security or send data elsewhere: the start fails
 */
import { STORE_ERROR_POLICIES } from '../config/rules.ts'
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
  orEmpty,
  path,
  string,
} from './values.ts'

export type State = 'built' | 'inert' | 'later' | 'refuse'
const built = 'built'
const inert = 'inert'

const MIB = 2 ** 20
const TIB = 2 ** 40

const token = matching(/^\S*$/, 'a text without white space')
const urlPath = matching(/^\/[^\s?#]*$/, 'a path that starts with a slash')
const port = int(0, 65_535)
const natural = int(0, 2 ** 31 - 1)
const count = int(0, 65_535)
const successes = int(1, 1_000)
const workers = intOrCores(1, 256)
const bodyBytes = int(1, 256 * MIB) // a body becomes one string; V8 limits those to 512 MiB
const cacheBytes = int(0, TIB)
const memoryBytes = int(MIB, 2048 * MIB) // of one table
const ratio = float(0, 1)
const share = float(0.01, 1) // 0 would open the circuit breaker without a failure
const factor = float(0)
const span = duration()
const instant = duration(0, 1) // more would keep a core busy or the thread from serving
const startWait = orEmpty(duration(0, 24 * 3_600_000))
const wait = duration(1) // 0 would be no time at all
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
const onEmpty = oneOfOrLast('CREATE', 'ERROR', 'WAIT')
const policy = exactWord(...STORE_ERROR_POLICIES)
const otlp = describingErrors(exactWord('http', 'grpc'), (text, allowed) => {
  return `Invalid otlptrace client protocol: ${text}; it is ${allowed}`
})

export type Cells = readonly [kind: Kind<unknown>, state: State, name: string, preset: string, help: string]

// biome-ignore format: the columns are the table
const table = {
  Ports: [
    [string,      built,  'HOST', '0.0.0.0', 'address the HTTP port listens on'],
    [port,        built,  'PORT', '8080', 'HTTP port: /json and /healthcheck; 0 = any free port'],
    [string,      built,  'GRPC_HOST', '0.0.0.0', 'address the gRPC port listens on'],
    [port,        built,  'GRPC_PORT', '8081', 'gRPC port: rate limit decisions and health; 0 = any free port'],
    [string,      built,  'GRPC_UDS', '', 'path of a unix socket that replaces GRPC_HOST and GRPC_PORT; only one worker serves it; empty = off'],
    [frontend,    built,  'GRPC_FRONTEND', 'http2', 'gRPC implementation: http2 is built in and fast, grpc-js is the official library'],
    [span,        built,  'GRPC_MAX_CONNECTION_AGE', '24h', 'age at which the server asks a connection to close (GOAWAY); 0 = never'],
    [span,        built,  'GRPC_MAX_CONNECTION_AGE_GRACE', '1h', 'time its running calls then have before the connection is cut; 0 = no bound'],
    [bodyBytes,   built,  'HTTP_BODY_MAX_BYTES', '4194304', 'longest request body on the HTTP port in bytes; a longer one is refused (default 4 MiB)'],
    [string,      built,  'DEBUG_HOST', '0.0.0.0', 'address the debug port listens on'],
    [port,        built,  'DEBUG_PORT', '6070', 'debug port: rules, statistics and profiles, for operators; 0 = any free port'],
    [token,       built,  'DEBUG_TOKEN', '', 'token that requests to the debug port must send; empty = no token needed'],
    [list,        built,  'DEBUG_ALLOWED_HOSTS', '', 'further host names accepted in requests to the debug port that have no token; * = any'],
  ],
  'TLS on the gRPC port': [
    [bool,        built,  'GRPC_SERVER_USE_TLS',    'false', 'accept only TLS connections'],
    [path,        built,  'GRPC_SERVER_TLS_CERT',   '', 'server certificate chain, PEM; must be in the same folder as the key'],
    [path,        built,  'GRPC_SERVER_TLS_KEY',    '', 'private key of the server, PEM; all three files are reloaded when they change'],
    [path,        built,  'GRPC_CLIENT_TLS_CACERT', '', 'require client certificates issued by this CA, PEM, or by a CA the system trusts; empty = none required'],
    [string,      built,  'GRPC_CLIENT_TLS_SAN',    '', 'DNS name or IP address that a client certificate must contain; empty = any'],
  ],
  Process: [
    [workers,     built,  'WORKERS',       'cores', 'threads that serve requests, 1 to 256; cores = one per CPU core'],
    [span,        built,  'DRAIN_DELAY',   '0',     'after SIGTERM, time between failing health checks and closing the ports'],
    [span,        built,  'DRAIN_TIMEOUT', '30s',   'longest wait for running requests after the ports are closed; a worker that has not responded for 5 s then is given up, and the process is ended by SIGKILL'],
    [level,       built,  'LOG_LEVEL',     'WARN',  'lowest severity that is logged'],
    [format,      built,  'LOG_FORMAT',    'text',  'format of log lines'],
  ],
  'Where the rules come from': [
    [source,      built,  'CONFIG_TYPE', 'FILE', 'source of the rules: files, or a management server (xDS)'],
    [path,        built,  'RUNTIME_ROOT', '/srv/runtime_data/current', 'root folder of the rule files; may be a symbolic link'],
    [string,      built,  'RUNTIME_SUBDIRECTORY', '', 'folder below RUNTIME_ROOT; empty = RUNTIME_ROOT itself'],
    [string,      built,  'RUNTIME_APPDIRECTORY', 'config', 'folder below RUNTIME_SUBDIRECTORY that holds the rule files'],
    [bool,        built,  'RUNTIME_IGNOREDOTFILES', 'false', 'skip files and folders whose name starts with a dot; set to true for Kubernetes config maps'],
    [bool,        built,  'RUNTIME_WATCH_ROOT', 'true', 'reload when the symbolic link RUNTIME_ROOT changes as well; false = watch the rules folder only'],
    [bool,        built,  'MERGE_DOMAIN_CONFIG', 'false', 'allow several files to define rules of one domain; false = an error'],
    [bool,        built,  'FORCE_START_WITHOUT_INITIAL_CONFIG', 'false', 'open the ports before the first rules are loaded'],
    [bool,        built,  'HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED', 'false', 'report healthy only while at least one domain is loaded'],
  ],
  'Rules from a management server (xDS)': [
    [string,      built,  'CONFIG_GRPC_XDS_SERVER_URL', 'localhost:18000', 'host:port of the management server'],
    [span,        inert,  'CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL', '3s', 'no effect: connecting is retried after 1s, then after delays that double'],
    [bool,        built,  'CONFIG_GRPC_XDS_SERVER_USE_TLS', 'false', 'connect to the management server with TLS'],
    [path,        built,  'CONFIG_GRPC_XDS_SERVER_TLS_CACERT', '', 'CA of the management server, PEM, trusted in addition to those of the system'],
    [string,      built,  'CONFIG_GRPC_XDS_SERVER_TLS_SAN', '', "name that the server's certificate must contain; empty = the host name in the URL"],
    [path,        built,  'CONFIG_GRPC_XDS_CLIENT_TLS_CERT', '', 'client certificate, PEM; empty = none'],
    [path,        built,  'CONFIG_GRPC_XDS_CLIENT_TLS_KEY', '', 'private key of the client certificate, PEM'],
    [map,         built,  'CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS', '', 'headers sent with every call: k:v,k2:v2'],
    [string,      built,  'CONFIG_GRPC_XDS_NODE_ID', 'default', 'node id sent to the server'],
    [string,      built,  'CONFIG_GRPC_XDS_NODE_METADATA', '', 'node metadata sent to the server: k=v,k2=v2'],
    [wait,        built,  'XDS_CLIENT_BACKOFF_INITIAL_INTERVAL', '10s', 'first delay before a new stream after one has ended; it doubles with each failure'],
    [wait,        built,  'XDS_CLIENT_BACKOFF_MAX_INTERVAL', '60s', 'longest such delay'],
    [factor,      inert,  'XDS_CLIENT_BACKOFF_RANDOM_FACTOR', '0.5', 'no effect: the delay always doubles'],
    [bool,        built,  'XDS_CLIENT_BACKOFF_JITTER', 'true', 'randomize the delays'],
    [natural,     built,  'XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES', '0', 'largest message accepted from the server in bytes; 0 = 4 MiB'],
  ],
  Decisions: [
    [bool,        built,  'SHADOW_MODE', 'false', 'decide and count as usual, but let every request pass'],
    [bool,        built,  'QUOTA_MODE', 'false', 'treat every rule as a quota rule'],
    [ratio,       built,  'NEAR_LIMIT_RATIO', '0.8', 'share of a limit, 0 to 1, above which hits are counted as near the limit'],
    [bool,        built,  'LIMIT_RESPONSE_HEADERS_ENABLED', 'false', 'add the three headers below to responses'],
    [string,      built,  'LIMIT_LIMIT_HEADER', 'RateLimit-Limit', 'name of the header that holds the limit'],
    [string,      built,  'LIMIT_REMAINING_HEADER', 'RateLimit-Remaining', 'name of the header that holds the remaining hits'],
    [string,      built,  'LIMIT_RESET_HEADER', 'RateLimit-Reset', 'name of the header that holds the seconds until the window ends'],
    [bool,        built,  'RESPONSE_DYNAMIC_METADATA', 'false', 'add the metadata of the matched rules to responses'],
    [policy,      built,  'STORE_ERROR_POLICY', 'error', 'what a rule without on_store_error answers when its hits cannot be counted: a failed call, OK, OVER_LIMIT, or a count of this process'],
    [span,        built,  'DECISION_TIMEOUT', '0', "time after which a call is answered without the counts that have not arrived, by the rules' policies; 0 = none but the caller's own deadline"],
    [bool,        built,  'DEGRADED_HEADER', 'false', 'add the header x-ratelimit-degraded to such responses even without LIMIT_RESPONSE_HEADERS_ENABLED'],
  ],
  Counters: [
    [backend,     built,  'BACKEND_TYPE', 'redis', 'where counters are stored; without any REDIS_* or MEMCACHE_* setting the default is memory'],
    [memoryBytes, built,  'MEMORY_STORE_BYTES', '67108864', 'size of the memory store in bytes, 1 MiB to 2 GiB (default 64 MiB)'],
    [string,      built,  'CACHE_KEY_PREFIX', '', 'prefix of every counter key'],
    [natural,     built,  'EXPIRATION_JITTER_MAX_SECONDS', '300', 'up to this many seconds, chosen at random, are added to the expiry of a counter; 0 = none'],
    [cacheBytes,  built,  'LOCAL_CACHE_SIZE_IN_BYTES', '0', 'size in bytes of the cache of keys that are over their limit; 0 = off'],
    [startWait,   built,  'STORE_START_WAIT', '', 'at startup, time after which the ports open although Redis does not respond, and rules answer by their on_store_error; 0 = at once; empty = wait for Redis without end'],
    [count,       built,  'STORE_BREAKER_FAILURES', '5', 'trips to a Redis or memcached node that must fail in a row until its circuit breaker opens and callers no longer wait for it; 0 = never'],
    [share,       built,  'STORE_BREAKER_SHARE', '0.5', 'it also opens when this share of at least 10 trips of the window failed or was slow, 0.01 to 1; 0.01 = one in a hundred'],
    [wait,        built,  'STORE_BREAKER_WINDOW', '2s', 'that window'],
    [span,        built,  'STORE_BREAKER_LATENCY', '0', 'a trip that takes longer is slow; 0 = no trip is'],
    [span,        built,  'STORE_BREAKER_SILENCE', '50ms', 'it also opens when calls reach their deadlines and the node has not replied to anything for this long; 0 = it does not'],
    [wait,        built,  'STORE_BREAKER_PROBE_INTERVAL', '200ms', 'while it is open, time between two probes of the node, 20 % more or less at random'],
    [successes,   built,  'STORE_BREAKER_SUCCESSES', '2', 'probes that must succeed in a row to close it'],
    [bool,        built,  'STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT', 'false', 'when one limit of a request is exceeded, do not count the request against its other limits'],
  ],
  Redis: [
    [string,      built,  'REDIS_URL', '/var/run/nutcracker/ratelimit.sock', 'host:port, socket path, redis:// URL, or the list that REDIS_TYPE asks for'],
    [socketType,  built,  'REDIS_SOCKET_TYPE', 'unix', 'network of REDIS_URL; the default is tcp if REDIS_URL is host:port or a URL'],
    [redisType,   built,  'REDIS_TYPE', 'SINGLE', 'form of REDIS_URL; sentinel: master,host:port,…; cluster: host:port,…'],
    [string,      built,  'REDIS_AUTH', '', 'password, or user:password; overrides the one in a redis:// URL'],
    [string,      built,  'REDIS_SENTINEL_AUTH', '', 'password, or user:password, of the sentinels'],
    [span,        built,  'REDIS_TIMEOUT', '10s', 'longest time to establish a connection; 0 = no bound'],
    [wait,        built,  'REDIS_OPERATION_TIMEOUT', '1s', 'longest time for a command, including its time in the queue; defaults to REDIS_TIMEOUT if only that is set'],
    [span,        built,  'REDIS_STARTUP_INITIAL_INTERVAL', '1s', 'at startup, first delay before Redis is tried again; it doubles'],
    [span,        built,  'REDIS_STARTUP_MAX_INTERVAL', '30s', 'longest such delay'],
    [span,        built,  'REDIS_STARTUP_MAX_ELAPSED_TIME', '0', 'at startup, time after which the process gives up; 0 = never'],
    [bool,        built,  'REDIS_HEALTH_CHECK_ACTIVE_CONNECTION', 'false', 'report unhealthy while no worker has a connection to one of the instances'],
    [count,       inert,  'REDIS_POOL_SIZE', '10', 'no effect: each worker uses one connection per node'],
    [onEmpty,     built,  'REDIS_POOL_ON_EMPTY_BEHAVIOR', 'WAIT', 'when 64 batches are in flight, hits wait; ERROR: they fail after the time below'],
    [span,        built,  'REDIS_POOL_ON_EMPTY_WAIT_DURATION', '1s', 'longest such wait with ERROR'],
    [span,        inert,  'REDIS_PIPELINE_WINDOW', '0', 'no effect: the hits of one turn of the event loop are one batch'],
    [count,       inert,  'REDIS_PIPELINE_LIMIT', '0', 'no effect: the hits of one turn of the event loop are one batch'],
    [parallelism, inert,  'REDIS_CLUSTER_PIPELINE_PARALLELISM', '1', 'no effect: all nodes are used in parallel'],
    [instant,     built,  'REDIS_BUSY_POLL', '40us', 'how long a worker polls for a reply before it sleeps, 0 to 1ms; saves wake-ups at low load; 0 = off'],
    [instant,     built,  'REDIS_REPLY_COALESCE_DELAY', '0', 'how long a worker may block to receive several replies at once, 0 to 1ms; 0 = off'],
    [bool,        built,  'REDIS_TLS', 'false', 'connect to Redis and to the sentinels with TLS'],
    [path,        built,  'REDIS_TLS_CACERT', '', 'CA of the servers, PEM, trusted in addition to those of the system'],
    [path,        built,  'REDIS_TLS_CLIENT_CERT', '', 'client certificate, PEM; used if its key is set too'],
    [path,        built,  'REDIS_TLS_CLIENT_KEY', '', 'private key of the client certificate, PEM'],
    [bool,        built,  'REDIS_TLS_SKIP_HOSTNAME_VERIFICATION', 'false', "do not compare the certificate's name with the host name"],
  ],
  'A second Redis for limits per second': [
    [bool,        built,  'REDIS_PERSECOND', 'false', 'use a second Redis for limits per second'],
    [string,      built,  'REDIS_PERSECOND_URL', '/var/run/nutcracker/ratelimitpersecond.sock', 'as REDIS_URL'],
    [socketType,  built,  'REDIS_PERSECOND_SOCKET_TYPE', 'unix', 'as REDIS_SOCKET_TYPE'],
    [redisType,   built,  'REDIS_PERSECOND_TYPE', 'SINGLE', 'as REDIS_TYPE'],
    [string,      built,  'REDIS_PERSECOND_AUTH', '', 'as REDIS_AUTH'],
    [string,      built,  'REDIS_PERSECOND_SENTINEL_AUTH', '', 'as REDIS_SENTINEL_AUTH'],
    [span,        built,  'REDIS_PERSECOND_TIMEOUT', '10s', 'as REDIS_TIMEOUT'],
    [wait,        built,  'REDIS_PERSECOND_OPERATION_TIMEOUT', '1s', 'as REDIS_OPERATION_TIMEOUT'],
    [count,       inert,  'REDIS_PERSECOND_POOL_SIZE', '10', 'no effect: see REDIS_POOL_SIZE'],
    [onEmpty,     built,  'REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR', 'WAIT', 'as REDIS_POOL_ON_EMPTY_BEHAVIOR'],
    [span,        built,  'REDIS_PERSECOND_POOL_ON_EMPTY_WAIT_DURATION', '1s', 'as REDIS_POOL_ON_EMPTY_WAIT_DURATION'],
    [span,        inert,  'REDIS_PERSECOND_PIPELINE_WINDOW', '0', 'no effect: see REDIS_PIPELINE_WINDOW'],
    [count,       inert,  'REDIS_PERSECOND_PIPELINE_LIMIT', '0', 'no effect: see REDIS_PIPELINE_LIMIT'],
    [parallelism, inert,  'REDIS_PERSECOND_CLUSTER_PIPELINE_PARALLELISM', '1', 'no effect: see REDIS_CLUSTER_PIPELINE_PARALLELISM'],
    [bool,        built,  'REDIS_PERSECOND_TLS', 'false', 'connect to it with TLS; uses the files of REDIS_TLS_*'],
  ],
  memcached: [
    [list,        built,  'MEMCACHE_HOST_PORT', '', 'host:port or socket path of every node, separated by commas'],
    [string,      built,  'MEMCACHE_SRV', '', 'DNS SRV record that lists the nodes; replaces MEMCACHE_HOST_PORT'],
    [span,        built,  'MEMCACHE_SRV_REFRESH', '0', 'interval at which the record is resolved again; 0 = never'],
    [count,       inert,  'MEMCACHE_MAX_IDLE_CONNS', '2', 'no effect: each worker uses one connection per node'],
    [bool,        built,  'MEMCACHE_ERRORS_AS_ZERO', 'false', 'take a count that cannot be read, or is not a number, as 0, so the request passes; false = an error'],
    [bool,        built,  'MEMCACHE_TLS', 'false', 'connect to the nodes with TLS'],
    [path,        built,  'MEMCACHE_TLS_CACERT', '', 'CA of the nodes, PEM, trusted in addition to those of the system'],
    [path,        built,  'MEMCACHE_TLS_CLIENT_CERT', '', 'client certificate, PEM; empty = none'],
    [path,        built,  'MEMCACHE_TLS_CLIENT_KEY', '', 'private key of the client certificate, PEM'],
    [bool,        built,  'MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION', 'false', "do not compare the certificate's name with the host name"],
  ],
  Statistics: [
    [bool,        built,  'DISABLE_STATS', 'false', 'send no statistics'],
    [bool,        built,  'USE_STATSD', 'true', 'send statistics to statsd; the default is false if another sink is enabled'],
    [bool,        built,  'USE_DOG_STATSD', 'false', 'send statistics to DogStatsD'],
    [bool,        built,  'USE_PROMETHEUS', 'false', 'serve statistics to Prometheus'],
    [map,         built,  'EXTRA_TAGS', '', 'tags added to every statistic: k:v,k2:v2'],
    [wait,        built,  'STATS_FLUSH_INTERVAL', '10s', 'interval at which statistics are sent'],
    [string,      built,  'STATSD_HOST', 'localhost', 'host of statsd or DogStatsD; for DogStatsD also unixstream:///path'],
    [port,        built,  'STATSD_PORT', '8125', 'port of statsd or DogStatsD'],
    [string,      built,  'STATSD_PROTOCOL', 'tcp', 'transport to statsd: tcp or udp'],
    [list,        built,  'USE_DOG_STATSD_MOGRIFIERS', '', 'names of the DogStatsD rewrite rules, in the order in which they are applied'],
    [string,      built,  'PROMETHEUS_ADDR', ':9090', 'host:port of the Prometheus endpoint; an empty host = all addresses'],
    [urlPath,     built,  'PROMETHEUS_PATH', '/metrics', 'path of the Prometheus endpoint'],
    [path,        built,  'PROMETHEUS_MAPPER_YAML', '', 'file that maps names of statistics to metrics and labels; empty = the built-in mapping'],
    [bool,        built,  'PROMETHEUS_RESPONSE_TIME_AS_MILLISECONDS', 'false', 'export response times in milliseconds; false = in seconds'],
    [bool,        built,  'PROMETHEUS_NATIVE_SERIES', 'false', "also export Sluice's own series: domain and rule as labels, limits, decision times"],
  ],
  Tracing: [
    [bool,        built,  'TRACING_ENABLED',             'false', 'send traces by OTLP; the OTEL_* variables set the destination'],
    [otlp,        built,  'TRACING_EXPORTER_PROTOCOL',   'http', 'OTLP protocol'],
    [ratio,       built,  'TRACING_SAMPLING_RATE',       '1', 'share of traces that is sent, 0 to 1'],
    [string,      built,  'TRACING_SERVICE_NAME',        'RateLimit', 'resource attribute service.name'],
    [string,      built,  'TRACING_SERVICE_NAMESPACE',   '', 'resource attribute service.namespace'],
    [string,      built,  'TRACING_SERVICE_INSTANCE_ID', '', 'resource attribute service.instance.id; empty = a random UUID'],
  ],
} as const satisfies Table

/** Older names that do not follow from the prefixes below; null = none. */
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

/** The same kind with the error text of envoyproxy/ratelimit for a value that is not allowed. */
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

/** Families of variables with a name in the middle (spec 7.5). They are not part of `Settings`. */
export const families: readonly Family[] = [
  family('PATTERN', 'string', 'regular expression of the statistics that the rule rewrites'),
  family('NAME', 'string', 'new name of the statistic; $1 is the first group of the pattern'),
  family('TAGS', 'map', 'tags added to the statistic: k:v,k2:v2'),
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

export type Table = Readonly<Record<string, readonly Cells[]>> // by group
type AnyCells<T extends Table> = T[keyof T][number]
type SettingValue<C> = C extends readonly [Kind<infer T>, ...unknown[]] ? T : never

/** The value of every setting of a table. Durations are milliseconds. */
export type Values<T extends Table> = { readonly [C in AnyCells<T> as C[2]]: SettingValue<C> }

export type SettingName = AnyCells<typeof table>[2]

/** Frozen, and safe to post to a worker. */
export type Settings = Values<typeof table>

/** One variable, as the parser and the help see it. */
export interface Row<Name extends string = string> {
  readonly name: Name
  readonly older: string | null // null = none
  readonly group: string
  readonly kind: Kind<unknown>
  readonly state: State
  readonly default: string
  readonly help: string
}

/** The rows of a table; the type carries the values that they parse to. */
export type Rows<V> = readonly Row<keyof V & string>[] & { readonly parsed?: V }

export const rows = toRows(table, olderName)

export function toRows<const T extends Table>(
  groups: T,
  toOlder: (name: AnyCells<T>[2]) => string | null = () => null,
): Rows<Values<T>> {
  return Object.entries(groups).flatMap(([group, cells]) =>
    cells.map(([kind, state, name, preset, help]) => ({
      name: name as keyof Values<T> & string,
      older: toOlder(name),
      group,
      kind,
      state,
      default: preset,
      help,
    })),
  )
}

function olderName(name: SettingName): string | null {
  const exception = OLDER_NAMES[name]
  if (exception !== undefined) return exception
  const prefix = OLDER_PREFIXES.find(([real]) => name.startsWith(real))
  return prefix ? prefix[1] + name.slice(prefix[0].length) : null
}
