/**
 * Environment variables that define what may be reached (spec 5.1, 5.4, 5.14). The proxy variables of other programs
 * (HTTP_PROXY, ALL_PROXY …) are not read.
 *
 *     PROBE_PORTS        80,443,3000,8000,8080,8443
 *     EGRESS_DENY        ranges denied besides the reserved ones        10.9.0.0/16,2001:db8:7::/48
 *     NAT64_PREFIX       a /96 whose embedded IPv4 is checked instead   64:ff9b::/96
 *     PUBLIC_BASE_URL    the public address of this monitor, never a target; also in the User-Agent
 *     EGRESS_TEST_ALLOW  127.0.0.0/8                     refused at start unless NODE_ENV=test
 *     EGRESS_TEST_HOSTS  relay.example.com=127.0.0.1:4000,…   the same
 *     EGRESS_PROXY       http://[user:password@]host:port   chosen by the operator, so its host may be private
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Range } from './address.ts'
import { parseAddress, parseRange } from './address.ts'

const PORTS = '80,443,3000,8000,8080,8443'
const PORTS_MAX = 32
const RANGES_MAX = 1_000 // each address is compared with all of them
const TEST_HOSTS_MAX = 1_000
// Checked before parsing because URL drops port 80.
const PROXY = /^http:\/\/(?:[^/\\?#@\s]*@)?(?:[^/\\?#@:\s]+|\[[^/\\?#@\]\s]+\]):[0-9]{1,5}\/?$/i

export interface EgressSettings {
  ports: ReadonlySet<number>
  deny: Range[]
  nat64: Range | null
  publicBaseUrl: URL | null
  proxy: ProxyServer | null
  testAllow: Range[]
  testHosts: ReadonlyMap<string, Endpoint> // name → endpoint, instead of DNS
}

export interface Endpoint {
  address: string
  port: number
}

export interface ProxyServer {
  host: string // name, or address without brackets
  port: number
  authorization: string | null // a secret: sent with CONNECT only
}

export function egressSettings(env: Readonly<Record<string, string | undefined>>): EgressSettings {
  for (const name of ['EGRESS_TEST_ALLOW', 'EGRESS_TEST_HOSTS']) {
    if (!env[name] || env.NODE_ENV === 'test') continue
    throw settingError(
      name,
      'allows addresses that must stay denied.',
      'Unset it, or set NODE_ENV=test in a test.',
    )
  }
  const nat64 = ranges(env, 'NAT64_PREFIX', 1)[0] ?? null
  if (nat64 !== null && (nat64.bits !== 96 || nat64.base.length !== 16)) {
    throw settingError('NAT64_PREFIX', 'is not an IPv6 prefix of 96 bits.', 'Write it like 64:ff9b::/96.')
  }
  return {
    ports: new Set(items(env, 'PROBE_PORTS', PORTS_MAX, PORTS).map(port)),
    deny: ranges(env, 'EGRESS_DENY', RANGES_MAX),
    nat64,
    publicBaseUrl: baseUrl(env.PUBLIC_BASE_URL),
    proxy: env.EGRESS_PROXY ? proxy(env.EGRESS_PROXY) : null,
    testAllow: ranges(env, 'EGRESS_TEST_ALLOW', RANGES_MAX),
    testHosts: new Map(items(env, 'EGRESS_TEST_HOSTS', TEST_HOSTS_MAX).map(testHost)),
  }
}

function settingError(where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code: 'EGRESS_SETTING', where, what, fix, exitCode: 2 })
}

function items(env: Readonly<Record<string, string | undefined>>, name: string, max: number, preset = '') {
  const texts = (env[name] || preset).split(',').map((text) => text.trim())
  if (texts.length > max) throw settingError(name, `has ${texts.length} items.`, `Write at most ${max}.`)
  return texts.filter((text) => text !== '')
}

function ranges(env: Readonly<Record<string, string | undefined>>, name: string, max: number): Range[] {
  return items(env, name, max).map((text) => {
    const range = parseRange(text)
    if (range === null)
      throw settingError(name, `"${text}" is not a range.`, 'Write an address, or one with /bits.')
    return range
  })
}

function port(text: string): number {
  const isPort = /^[1-9][0-9]{0,4}$/.test(text) && Number(text) <= 65_535
  if (!isPort) throw settingError('PROBE_PORTS', `"${text}" is not a port.`, 'Write numbers from 1 to 65535.')
  return Number(text)
}

function baseUrl(text: string | undefined): URL | null {
  if (!text) return null
  const url = URL.canParse(text) ? new URL(text) : null
  const fix = 'Write it like https://monitor.example.org.'
  if (url?.protocol !== 'http:' && url?.protocol !== 'https:') {
    throw settingError('PUBLIC_BASE_URL', 'is not the URL of a site.', fix)
  }
  const extras = [
    [url.username !== '' || url.password !== '', 'a user name or password'],
    [url.pathname !== '/', 'a path'],
    [text.includes('?'), 'a query'],
    [text.includes('#'), 'a fragment'],
  ] as const
  const extra = extras.find(([isThere]) => isThere)
  if (extra) throw settingError('PUBLIC_BASE_URL', `"${url.origin}…" has ${extra[1]}.`, fix)
  return url
}

/** The text contains a password, so no message repeats it. */
function proxy(text: string): ProxyServer {
  const url = PROXY.test(text) && URL.canParse(text) ? new URL(text) : null
  const credentials = url && decoded([url.username, url.password])
  if (url === null || url.port === '0' || credentials === null) {
    const fix =
      'Write it like http://proxy:3128 or http://user:password@proxy:3128, with %40 for an @ in a password.'
    throw settingError('EGRESS_PROXY', 'is not the URL of an HTTP proxy.', fix)
  }
  const hasUser = url.username !== '' || url.password !== ''
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || 80),
    authorization: hasUser ? `Basic ${Buffer.from(credentials.join(':')).toString('base64')}` : null,
  }
}

/** User and password, percent-decoded; null = they cannot be sent. */
function decoded(texts: [string, string]): string[] | null {
  try {
    const [user, password] = texts.map(decodeURIComponent)
    return user.includes(':') || /\p{Cc}/u.test(user + password) ? null : [user, password]
  } catch {
    return null
  }
}

function testHost(text: string): [string, Endpoint] {
  const match = /^([^=]+)=(.+):([0-9]{1,5})$/.exec(text)
  if (match === null || parseAddress(match[2]) === null) {
    throw settingError('EGRESS_TEST_HOSTS', `"${text}" is not a host.`, 'Write it like name=127.0.0.1:4000.')
  }
  return [match[1].toLowerCase(), { address: match[2], port: Number(match[3]) }]
}
