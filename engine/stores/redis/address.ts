/**
 * Addresses and credentials of Redis (spec 9.1, 9.2).
 *
 *     type       socket type   REDIS_URL                                  REDIS_AUTH
 *     single     unix          /var/run/redis.sock                        pass          password alone
 *                tcp           host:6379  ·  [::1]:6379                   user:pass     split at the first colon
 *                any           redis://[user:pass@]host[:6379][/db][?username=&password=&db=]
 *     sentinel   always tcp    master,host:26379,host:26379               for the master alone; REDIS_SENTINEL_AUTH
 *     cluster    always tcp    host:6379,host:6379                        for every node
 *
 * REDIS_AUTH takes precedence over the URL. Logs and errors show the URL masked.
 */
import { ConfigurationError } from '../../runtime/errors.ts'

export interface RedisAddress {
  path: string // unix socket; '' = host and port
  host: string
  port: number
  family: 0 | 4 | 6 // 0 = either
  username: string // '' = none
  password: string // '' = no AUTH
  db: number
  masked: string // REDIS_URL without its secrets
}

export interface RedisAddressText {
  url: string
  socketType: string // tcp, tcp4, tcp6 or unix
  auth: string
  variable?: string // the setting that `url` comes from, for errors
}

const PORT_DEFAULT = 6379
export const PORT_MAX = 65_535

export function parseRedisAddress({
  url,
  socketType,
  auth,
  variable = 'REDIS_URL',
}: RedisAddressText): RedisAddress {
  const address: RedisAddress = {
    path: '',
    host: '',
    port: PORT_DEFAULT,
    family: socketType === 'tcp4' ? 4 : socketType === 'tcp6' ? 6 : 0,
    username: '',
    password: '',
    db: 0,
    masked: maskRedisUrl(url),
  }
  const origin: Origin = { variable, where: `${variable} "${address.masked}"` }
  if (url === '') throw invalidUrl(origin, 'it is empty.')
  if (url.includes('://')) readUrl(url, address, origin)
  else if (socketType === 'unix') address.path = url
  else if (/^tcp[46]?$/.test(socketType)) readHostPort(url, address, origin)
  else {
    const fix = 'Write tcp or unix.'
    throw new ConfigurationError({
      code: 'REDIS_SOCKET_TYPE_UNKNOWN',
      where: siblingSetting(origin, 'SOCKET_TYPE'),
      what: `"${socketType}" is not a socket type.`,
      fix,
      exitCode: 2,
    })
  }
  if (auth !== '') {
    const colon = auth.indexOf(':')
    address.username = colon < 0 ? '' : auth.slice(0, colon)
    address.password = auth.slice(colon + 1)
  }
  return address
}

/** `<master>,<sentinel>[,…]`. `auth` is REDIS_SENTINEL_AUTH; nothing is trimmed. */
export function parseSentinels(url: string, auth: string, variable?: string) {
  const [master, ...sentinels] = url.split(',')
  if (sentinels.length === 0) {
    const what =
      'Expected master name and a list of urls for the sentinels, in the format: ' +
      '<redis master name>,<sentinel1>,...,<sentineln>'
    const where = `${variable ?? 'REDIS_URL'} "${maskRedisUrl(url)}"`
    throw new ConfigurationError({ code: 'REDIS_URL_INVALID', where, what, exitCode: 2 })
  }
  const parseSentinelAddress = (part: string) =>
    parseRedisAddress({ url: part, socketType: 'tcp', auth, variable })
  return { master, sentinels: sentinels.map(parseSentinelAddress) }
}

/** `host:port[,…]`: nodes that know the others. The credentials of the first apply to all. */
export function parseClusterSeeds(url: string, auth: string, variable?: string): RedisAddress[] {
  const seeds = url
    .split(',')
    .map((part) => parseRedisAddress({ url: part, socketType: 'tcp', auth, variable }))
  const { username, password } = seeds[0]
  return seeds.map((seed) => ({ ...seed, username, password, db: 0 }))
}

/** `redis://user:secret@host:6379` as `redis://*****@host:6379`, in each part between commas. */
export function maskRedisUrl(urls: string): string {
  return urls
    .replace(/(rediss?:\/\/)(?:(?!,rediss?:\/\/).)*@/gis, '$1*****@') // a password may hold commas
    .replace(/(^|,)[^,@/]+@/g, '$1*****@') // without a scheme it is not an address, but may hold a password
    .replace(/([?&]password=)[^&,]*/gi, '$1*****')
}

/** Where an address was set, for errors. */
interface Origin {
  variable: string
  where: string // the setting with its value, masked
}

/** Another setting of the same instance: REDIS_PERSECOND_TLS for REDIS_PERSECOND_URL. */
function siblingSetting({ variable }: Origin, name: string): string {
  return variable.replace(/URL$/, name)
}

function readHostPort(text: string, address: RedisAddress, origin: Origin): void {
  const parts = /^(?:\[([^\]]+)\]|([^:[\]]*)):(\d+)$/.exec(text)
  const port = Number(parts?.[3] ?? 0)
  if (parts === null || port < 1 || port > PORT_MAX) throw invalidUrl(origin, 'it is not host:port.')
  address.host = parts[1] ?? (parts[2] || 'localhost')
  address.port = port
}

function readUrl(text: string, address: RedisAddress, origin: Origin): void {
  if (text.startsWith('rediss://')) {
    throw new ConfigurationError({
      code: 'REDIS_URL_SCHEME',
      where: origin.where,
      what: 'rediss:// is not supported.',
      fix: `Write redis:// and set ${siblingSetting(origin, 'TLS')}=true.`,
      exitCode: 2,
    })
  }
  const url = URL.parse(text)
  if (url === null || url.protocol !== 'redis:' || url.hostname === '')
    throw invalidUrl(origin, 'it is not a redis:// URL.')
  address.host = url.hostname.replace(/^\[(.*)\]$/, '$1')
  if (url.port !== '') address.port = Number(url.port)
  try {
    address.username = decodeURIComponent(url.username) || (url.searchParams.get('username') ?? '')
    address.password = decodeURIComponent(url.password) || (url.searchParams.get('password') ?? '')
  } catch (cause) {
    throw invalidUrl(origin, 'its user or password has an invalid % escape.', { cause })
  }
  const db = url.searchParams.get('db') || url.pathname.slice(1) || '0'
  if (!/^\d{1,9}$/.test(db)) throw invalidUrl(origin, `"${db}" is not a database number.`)
  address.db = Number(db)
}

function invalidUrl(origin: Origin, what: string, options?: ErrorOptions): ConfigurationError {
  return new ConfigurationError(
    {
      code: 'REDIS_URL_INVALID',
      where: origin.where,
      what,
      fix: `Write host:port, redis://user:password@host:port/db, or a path with ${siblingSetting(origin, 'SOCKET_TYPE')}=unix.`,
      exitCode: 2,
    },
    options,
  )
}
