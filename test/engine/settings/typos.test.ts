import { expect, test } from 'vitest'
import { rows } from '../../../engine/settings/table.ts'
import { nearest } from '../../../engine/settings/typos.ts'

const known = rows.flatMap(({ name, older }) => (older === null ? [name] : [name, older]))

// biome-ignore format: the columns are the specification
const typos = [
  ['REDIS_ULR',          'REDIS_URL'], // swapped
  ['REDIS_UL',           'REDIS_URL'], // left out
  ['REDIS_URLS',         'REDIS_URL'], // added
  ['REDIS_URI',          'REDIS_URL'], // wrong
  ['REDSI_ULR',          'REDIS_URL'], // two swaps
  ['KVSTORE_ULR',        'KVSTORE_URL'],
  ['REDIS_PERSECONDS',   'REDIS_PERSECOND'],
  ['REDIS_TLS_CA_CERT',  'REDIS_TLS_CACERT'],
  ['LOG_LEVL',           'LOG_LEVEL'],
  ['USE_STATS',          'USE_STATSD'],
  ['NEAR_LIMIT_RATE',    'NEAR_LIMIT_RATIO'],
] as const

for (const [name, intended] of typos) {
  test(`${name} is corrected to ${intended}`, () => expect(nearest(name, known)).toBe(intended))
}

// biome-ignore format: names of one origin share a line
const unrelatedVariables = [
  'HOME', 'HOSTNAME', 'POST', 'PATH', 'PWD', 'OLDPWD', 'SHLVL', 'LANG',
  'TERM', 'USER', 'LOGNAME', 'MAIL', '_',
  'XDG_RUNTIME_DIR', 'SSH_AUTH_SOCK', 'LC_ALL', 'COLORTERM', 'DEBIAN_FRONTEND',
  'LS_COLORS', 'TMPDIR', 'SHELL',
  'NOTIFY_SOCKET', 'LISTEN_FDS', 'LISTEN_PID', 'INVOCATION_ID',
  'JOURNAL_STREAM', 'SYSTEMD_EXEC_PID', 'MAINPID',
  'RUNTIME_DIRECTORY', 'STATE_DIRECTORY', 'CACHE_DIRECTORY', 'CONFIGURATION_DIRECTORY', 'WATCHDOG_USEC',
  'NODE_ENV', 'NODE_OPTIONS', 'NODE_VERSION', 'YARN_VERSION', 'NPM_CONFIG_CACHE', 'npm_config_user_agent',
  'GRPC_TRACE', 'GRPC_VERBOSITY', 'GRPC_DNS_RESOLVER',
  'GRPC_SSL_CIPHER_SUITES', 'GRPC_DEFAULT_SSL_ROOTS_FILE_PATH',
  'OTEL_SERVICE_NAME', 'OTEL_EXPORTER_OTLP_ENDPOINT', 'DD_AGENT_HOST', 'DD_ENTITY_ID',
  'DD_SERVICE', 'DD_ENV',
  'GOSTATS_FLUSH_INTERVAL_SECONDS', 'SSL_CERT_FILE', 'SSL_CERT_DIR', 'HTTPS_PROXY',
  'NO_PROXY', 'AWS_REGION',
  'POD_NAME', 'POD_NAMESPACE', 'POD_IP', 'NODE_NAME', 'HOST_IP', 'SERVICE_ACCOUNT', 'DATABASE_URL',
  'REDIS_HOST', 'REDIS_PORT', 'REDIS_PASSWORD', 'REDIS_USERNAME', 'REDIS_DB', 'REDIS_ADDR', 'REDIS_TLS_URL',
  'REDIS_VERSION', 'REDIS_DOWNLOAD_URL', 'MEMCACHED_HOST', 'MEMCACHED_VERSION', 'DEBUG_MODE', 'APP_CONFIG',
]

test.each(unrelatedVariables)('%s is not a typo of a setting', (name) =>
  expect(nearest(name, known)).toBeUndefined(),
)

test('no setting is a typo of another one', () => {
  for (const name of known) expect(nearest(name, known) ?? name).toBe(name)
})
