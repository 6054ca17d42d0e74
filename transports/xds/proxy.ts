/**
 * Chooses the proxy of the management server (spec 10) by the rules of Go's net/http for HTTPS_PROXY and NO_PROXY:
 *
 *     HTTPS_PROXY, or https_proxy     http://[user:password@]host[:port], or without http://
 *     NO_PROXY, or no_proxy           comma-separated; matching servers are connected directly
 *         *                           everything
 *         example.com                 the name and its subdomains   .example.com  *.example.com   subdomains only
 *         192.0.2.7  192.0.2.0/24     an address, a range           …:8080                         only on that port
 *
 * localhost and loopback addresses are always direct. HTTP_PROXY does not apply to gRPC.
 */
import { BlockList, isIP } from 'node:net'

export interface Address {
  host: string // without brackets
  port: number
}

export interface HttpProxy {
  address: string // host:port
  authorization: string // '' = none
}

type Environment = Record<string, string | undefined>

const HTTP_PORT = '80'

/** Null = none; throws an Error for a proxy that cannot be used. */
export function proxyFor(server: Address, env: Environment): HttpProxy | null {
  const name = env.HTTPS_PROXY ? 'HTTPS_PROXY' : 'https_proxy'
  const text = env[name] ?? ''
  if (text === '' || isLocal(server.host) || isExcepted(server, env.NO_PROXY || env.no_proxy || ''))
    return null
  const given = text.includes('://') ? text : `http://${text}`
  const url = URL.canParse(given) ? new URL(given) : null
  if (url?.protocol !== 'http:') throw new Error(`${name} is not a URL such as http://proxy.example:3128`)
  return { address: `${url.hostname}:${url.port || HTTP_PORT}`, authorization: basic(url) }
}

function basic({ username, password }: URL): string {
  if (username === '' && password === '') return ''
  const credentials = `${decodeURIComponent(username)}:${decodeURIComponent(password)}`
  return `Basic ${Buffer.from(credentials).toString('base64')}`
}

const LOOPBACK = addressSet('127.0.0.0', 8)
LOOPBACK.addAddress('::1', 'ipv6')

function isLocal(host: string): boolean {
  return host === 'localhost' || isIn(LOOPBACK, host)
}

function isExcepted(server: Address, list: string): boolean {
  return list
    .toLowerCase()
    .split(',')
    .some((item) => matchesItem(item.trim(), server))
}

function matchesItem(item: string, { host, port }: Address): boolean {
  if (item === '' || item === '*') return item === '*'
  const range = /^(.+)\/(\d+)$/.exec(item)
  if (range !== null)
    return isRange(range[1], Number(range[2])) && isIn(addressSet(range[1], Number(range[2])), host)
  const [, bracketed, plain = bracketed, itemPort] =
    /^(?:\[(.+)\]|([^:]*|.*:.*:.*))(?::(\d+))?$/.exec(item) ?? []
  if (!plain || (itemPort !== undefined && Number(itemPort) !== port)) return false
  if (isIP(plain) !== 0) return isIn(addressSet(plain), host)
  const name = plain.replace(/^\*(?=\.)/, '')
  const lowerHost = host.toLowerCase()
  return name.startsWith('.')
    ? lowerHost.endsWith(name)
    : lowerHost === name || lowerHost.endsWith(`.${name}`)
}

function isRange(address: string, bits: number): boolean {
  return isIP(address) !== 0 && bits <= (isIP(address) === 4 ? 32 : 128)
}

/** One address, or the range of addresses with the same leading bits. */
function addressSet(address: string, bits?: number): BlockList {
  const set = new BlockList()
  if (bits === undefined) set.addAddress(address, family(address))
  else set.addSubnet(address, bits, family(address))
  return set
}

function isIn(set: BlockList, host: string): boolean {
  return isIP(host) !== 0 && set.check(host, family(host))
}

function family(address: string): 'ipv4' | 'ipv6' {
  return isIP(address) === 4 ? 'ipv4' : 'ipv6'
}
