/**
 * Statistics for a Datadog agent (spec 7.5): tags of their own, and names rewritten by mogrifiers.
 *
 *     ratelimit.total_hits:5|c|#zone:b,domain:shop,rule:user,env:prod|c:3f2a…
 *     ratelimit_server.ShouldRateLimit.response_time:0.000000|ms|@0.25|#zone:b         four of them
 *
 * STATSD_HOST is a host for UDP, or `unixstream:///var/run/datadog/dsd.socket` (also `unix://`) for a stream socket,
 * where each packet follows its length. Unix *datagram* sockets are refused: Node has none. The library for them
 * (unix-dgram, under hot-shots) is compiled on the machine that installs it, which costs every installation a compiler.
 * Our own writer instead of hot-shots, since what it adds (sampling, aggregation, a call per value) is done by the totals.
 */
import { readFileSync } from 'node:fs'
import { OperatorError } from '../../engine/errors.ts'
import type { Log } from '../../engine/messages.ts'
import { type LineFormat, LineSink, plain, rateText } from './lines.ts'
import type { Mogrify } from './mogrifiers.ts'
import { type Dial, Outlet, QUEUE_BYTES_MAX } from './outlet.ts'
import { DATAGRAM_BYTES, DATAGRAM_BYTES_MAX } from './statsd.ts'
import { splitTags, type Tags, withTags } from './tags.ts'
import { datagramDial, streamDial } from './writers.ts'

const PACKET_BYTES = 8_192 // of a stream: what agents read at once by default

export interface DogStatsdOptions {
  host: string
  port: number
  tags: Tags
  mogrify: Mogrify
  globals: Globals
  log: Log
  redialMs?: number // for tests
}

/** What every line ends with. */
export interface Globals {
  tags: Tags
  container: string // empty = not told
}

/** Throws OperatorError for an address that cannot be used. */
export function dogStatsdSink({ host, port, log, redialMs, ...rest }: DogStatsdOptions): LineSink {
  const { dial, peer, chunkBytes, lineBytesMax } = routeTo(host, port)
  const outlet = new Outlet({
    peer: `DogStatsD ${peer}`,
    dial,
    chunkBytes,
    lineBytesMax,
    bytesMax: QUEUE_BYTES_MAX,
    log,
    redialMs,
  })
  return new LineSink(dogStatsdFormat(rest), outlet)
}

function routeTo(host: string, port: number) {
  const socket = /^(unix|unixstream|unixgram):\/\/(.*)$/.exec(host)
  if (socket === null) {
    const dial: Dial = datagramDial(host, port)
    return { dial, peer: `${host}:${port}`, chunkBytes: DATAGRAM_BYTES, lineBytesMax: DATAGRAM_BYTES_MAX }
  }
  if (socket[1] === 'unixgram') {
    throw new OperatorError({
      code: 'DOGSTATSD_UNIXGRAM',
      where: 'STATSD_HOST',
      what: 'unix datagram sockets cannot be used.',
      fix: 'Write unixstream:// and set dogstatsd_stream_socket in the agent, or use UDP.',
    })
  }
  const dial = streamDial({ path: socket[2] }, lengthPrefixed)
  return { dial, peer: host, chunkBytes: PACKET_BYTES, lineBytesMax: PACKET_BYTES }
}

/** Each packet on a stream follows its length in four bytes, the lowest first. */
function lengthPrefixed(packet: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(packet.length)
  return Buffer.concat([length, packet])
}

export function dogStatsdFormat({
  tags: extraTags,
  mogrify,
  globals,
}: Pick<DogStatsdOptions, 'tags' | 'mogrify' | 'globals'>): LineFormat {
  const container = globals.container === '' ? '' : `|c:${globals.container}`
  return {
    head(fullName) {
      const { base, tags } = splitTags(withTags(fullName, extraTags))
      const { name, tags: more } = mogrify(base)
      const all = [...globals.tags, ...tags, ...more].map(([key, value]) => `${clean(key)}:${clean(value)}`)
      return {
        name: name.replaceAll(/[:|\n]/g, '_'),
        tags: (all.length > 0 ? `|#${all.join(',')}` : '') + container,
      }
    },
    counter: ({ name, tags }, delta) => `${name}:${plain(delta)}|c${tags}\n`,
    gauge: ({ name, tags }, value) => `${name}:${plain(value)}|g${tags}\n`,
    timer: ({ name, tags }, ms, samples) =>
      `${name}:${ms.toFixed(6)}|ms${samples === 1 ? '' : `|@${rateText(samples)}`}${tags}\n`,
  }
}

/** Groups of a mogrifier may hold what callers wrote, and must not become tags of their own. */
function clean(text: string): string {
  return text.replaceAll(/[,|\n]/g, '_')
}

const CONTAINER = /([0-9a-f]{64}|[0-9a-f]{32}-\d+|[0-9a-f]{8}(?:-[0-9a-f]{4}){4})(?:\.scope)?$/ // Docker and the like, ECS, Cloud Foundry

/** Datadog's variables. An entity id says where we run, so the container is told only without. `cgroup` is for tests. */
export function globalsFrom(
  env: Readonly<Record<string, string | undefined>>,
  cgroup = '/proc/self/cgroup',
): Globals {
  const names = {
    DD_ENTITY_ID: 'dd.internal.entity_id',
    DD_ENV: 'env',
    DD_SERVICE: 'service',
    DD_VERSION: 'version',
  }
  const tags = Object.entries(names).flatMap(([variable, key]) => {
    const value = env[variable]
    return value ? [[key, value] as const] : []
  })
  const asks = !/^(?:0|f|false)$/i.test(env.DD_ORIGIN_DETECTION_ENABLED ?? '') && !env.DD_ENTITY_ID
  return { tags, container: asks ? containerIn(cgroup) : '' }
}

function containerIn(cgroup: string): string {
  try {
    for (const line of readFileSync(cgroup, 'utf8').split('\n')) {
      const found = CONTAINER.exec(line)
      if (found) return found[1]
    }
  } catch {} // no Linux
  return ''
}
