/** The command line of `npm run load`: one table, from which `--help`, the defaults and the errors come. */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Group } from './cpu.ts'
import type { Endpoint } from './dial.ts'
import { type Keys, parseKeys } from './keys.ts'

export interface Options {
  endpoint: Endpoint
  connections: number
  streams: number
  ratePerSec: number // 0 = closed loop
  backlogMax: number
  durationMs: number
  calls: number // end of the window, if it comes first; 0 = after durationMs
  warmupMs: number
  keys: Keys
  descriptors: number
  entries: number
  domain: string
  hits: number
  seed: number
  deadline: string // grpc-timeout; '' = none
  cpu: Group[]
  json: string // path, '-' = standard output, '' = none
  html: string
}

/** One flag: its value in --help, its default, its line of --help, and how its text becomes options. */
interface Flag {
  takes: string
  otherwise: string
  help: string
  /** Throws a BadValue with the valid form. */
  read(text: string, options: Options): void
}

class BadValue extends Error {}

const CONNECTIONS_MAX = 1_000
const STREAMS_MAX = 10_000
const RATE_MAX = 1_000_000

// biome-ignore format: a table
const FLAGS: Record<string, Flag> = {
  connections: { takes: 'N', otherwise: '4', help: `connections, 1 to ${CONNECTIONS_MAX}`,
    read: (text, options) => { options.connections = whole(text, 1, CONNECTIONS_MAX) } },
  streams: { takes: 'N', otherwise: '16', help: `calls in flight per connection: always (closed loop) or at most (open loop); http: connections each`,
    read: (text, options) => { options.streams = whole(text, 1, STREAMS_MAX) } },
  rate: { takes: 'N', otherwise: '0', help: 'calls per second at even distances, however fast responses come: open loop; 0 = closed loop',
    read: (text, options) => { options.ratePerSec = whole(text, 0, RATE_MAX) } },
  backlog: { takes: 'N', otherwise: '100000', help: 'open loop: due calls that may wait for a free stream; more are dropped and counted',
    read: (text, options) => { options.backlogMax = whole(text, 1, 10_000_000) } },
  duration: { takes: 'TIME', otherwise: '10s', help: 'how long to measure: 500ms, 10s, 2m',
    read: (text, options) => { options.durationMs = time(text, 100) } },
  calls: { takes: 'N', otherwise: '0', help: 'end the window after this many calls, at the latest after --duration; 0 = after --duration',
    read: (text, options) => { options.calls = whole(text, 0, 1_000_000_000) } },
  warmup: { takes: 'TIME', otherwise: '2s', help: 'the same load before that, not measured; with 0s the window holds the first call',
    read: (text, options) => { options.warmupMs = time(text, 0) } },
  keys: { takes: 'KIND', otherwise: 'zipf:100000', help: 'hot, zipf:N (exponent 1, N up to 1000000) or uniform:N (up to 1000000000)',
    read: (text, options) => { options.keys = parseKeys(text) ?? bad('hot, zipf:N with N up to 1000000, or uniform:N with N up to 1000000000') } },
  descriptors: { takes: 'N', otherwise: '2', help: 'descriptors per request, 1 to 10, each with a key of its own',
    read: (text, options) => { options.descriptors = whole(text, 1, 10) } },
  entries: { takes: 'N', otherwise: '2', help: 'entries per descriptor: 1 (user) or 2 (user, path)',
    read: (text, options) => { options.entries = whole(text, 1, 2) } },
  domain: { takes: 'NAME', otherwise: 'load', help: 'the domain of the requests; --rules prints what a server needs for it',
    read: (text, options) => { options.domain = text.length > 0 && text.length <= 200 ? text : bad('a name of at most 200 characters') } },
  hits: { takes: 'N', otherwise: '1', help: 'hits_addend of each request',
    read: (text, options) => { options.hits = whole(text, 0, 2 ** 32 - 1) } },
  seed: { takes: 'N', otherwise: '7', help: 'of the keys: the same seed sends the same requests',
    read: (text, options) => { options.seed = whole(text, 0, 2 ** 31 - 1) } },
  deadline: { takes: 'TIME', otherwise: 'none', help: 'gRPC: send it as grpc-timeout, as a proxy does',
    read: (text, options) => { options.deadline = text === 'none' ? '' : `${time(text, 1)}m` } },
  cpu: { takes: 'NAME=PID[,PID]', otherwise: 'none', help: 'report the processor time per decision of these processes and those below them; may be repeated',
    read: (text, options) => { if (text !== 'none') options.cpu.push(group(text, '--cpu', text)) } },
  pid: { takes: 'PID[,PID]', otherwise: 'none', help: 'the same with the name "server"',
    read: (text, options) => { if (text !== 'none') options.cpu.push(group(`server=${text}`, '--pid', text)) } },
  json: { takes: 'FILE', otherwise: 'none', help: 'write the result as JSON; - is standard output, which then has nothing else',
    read: (text, options) => { options.json = text === 'none' ? '' : text } },
  html: { takes: 'FILE', otherwise: 'none', help: 'write a report with charts: one file that loads nothing',
    read: (text, options) => { options.html = text === 'none' ? '' : text } },
}

const USAGE = `Puts load on a rate limit service and measures it.

usage: npm run load -- ENDPOINT [flags]

  grpc://127.0.0.1:8081        envoy.service.ratelimit.v3 over gRPC, without TLS
  http://127.0.0.1:8080/json   the same as JSON over HTTP

`
const MORE = `
  --rules                print rules for the server that are never exceeded, and end
  --help                 this text

Calls that fail are in neither rate nor latency: they are counted as errors, by cause. Ctrl-C ends the window early and
prints the figures; a second one ends at once. npm prints a banner of its own: \`npm run -s load\` where the output is kept.

Exit code: 0 all responses were valid; 1 some were not, or none came; 2 wrong usage.

  npm run -s load -- --rules > load.yaml
  npm run -s load -- grpc://127.0.0.1:8081 --json - > result.json
  npm run load -- grpc://127.0.0.1:8081 --cpu server=4711 --cpu redis=4712 --html report.html
  npm run load -- grpc://127.0.0.1:8081 --rate 20000 --streams 100 --duration 1m
`

export function usage(): string {
  const lines = Object.entries(FLAGS).map(([name, { takes, otherwise, help }]) => {
    return `  ${`--${name} ${takes}`.padEnd(22)} ${help} (default ${otherwise})\n`
  })
  return USAGE + lines.join('') + MORE
}

/** Throws a ConfigurationError with the mistake, its place and the valid form. */
export function parseOptions(args: string[]): Options {
  const options = { cpu: [] as Group[] } as Options
  for (const flag of Object.values(FLAGS)) flag.read(flag.otherwise, options)
  let endpoint = ''
  for (let i = 0; i < args.length; i++) {
    const [, name, inline] = /^--?([a-z]+)(?:=(.*))?$/s.exec(args[i]) ?? []
    if (name === undefined) {
      if (endpoint !== '') throw usageError(args[i], 'is a second endpoint.', 'Give one.')
      endpoint = args[i]
      continue
    }
    const flag = Object.hasOwn(FLAGS, name) ? FLAGS[name] : undefined
    if (!flag) throw usageError(args[i], 'is no flag of this command.', 'See --help.')
    const text = inline ?? args[++i]
    if (text === undefined) throw usageError(`--${name}`, `needs a value: ${flag.takes}.`, 'See --help.')
    try {
      flag.read(text, options)
    } catch (error) {
      if (!(error instanceof BadValue)) throw error
      throw usageError(`--${name}`, `"${text}" is not understood.`, `Write ${error.message}.`)
    }
  }
  if (endpoint === '')
    throw usageError('npm run load', 'an endpoint is missing.', 'Write for example grpc://127.0.0.1:8081.')
  options.endpoint = parseEndpoint(endpoint)
  return options
}

export function parseEndpoint(text: string): Endpoint {
  const url = URL.canParse(text) ? new URL(text) : null
  const protocol = url?.protocol === 'grpc:' ? 'grpc' : url?.protocol === 'http:' ? 'http' : null
  if (url === null || protocol === null || url.hostname === '') {
    throw usageError(text, 'is no endpoint.', 'Write grpc://host:port or http://host:port/json.')
  }
  const port = Number(url.port) || (protocol === 'grpc' ? 8081 : 80)
  const path = url.pathname === '/' ? '/json' : url.pathname
  return { protocol, host: url.hostname.replace(/^\[|\]$/g, ''), port, path }
}

function usageError(where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code: 'LOAD_USAGE', where, what, fix, exitCode: 2 })
}

function bad(right: string): never {
  throw new BadValue(right)
}

function whole(text: string, min: number, max: number): number {
  const value = /^\d+$/.test(text) ? Number(text) : -1
  return value >= min && value <= max ? value : bad(`a whole number from ${min} to ${max}`)
}

/** Milliseconds. */
function time(text: string, minMs: number): number {
  const [, digits, unit] = /^(\d+(?:\.\d+)?)(ms|s|m)$/.exec(text) ?? []
  const ms = Number(digits) * ({ ms: 1, s: 1_000, m: 60_000 }[unit] ?? Number.NaN)
  return ms >= minMs && ms <= 86_400_000 ? ms : bad(`a time such as 500ms, 10s or 2m, at least ${minMs} ms`)
}

function group(text: string, flag: string, given: string): Group {
  const [, name, pids] = /^([\w.-]+)=(\d+(?:,\d+)*)$/.exec(text) ?? []
  if (name === undefined) return bad(flag === '--pid' ? 'pid or pid,pid' : 'name=pid or name=pid,pid')
  return { name, pids: pids.split(',').map(Number), given: `${flag} ${given}` }
}
