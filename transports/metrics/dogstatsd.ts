/**
 * Statistics for a Datadog agent (spec 7.5): tags apart from names, and names rewritten by mogrifiers.
 *
 *     ratelimit.total_hits:5|c|#env:prod,zone:b,domain:shop,rule:user|c:3f2a…
 *     ratelimit_server.ShouldRateLimit.response_time:0.000000|ms|@0.25|#zone:b         four measurements
 *
 * STATSD_HOST is a host for UDP, or `unixstream:///var/run/datadog/dsd.socket` (also `unix://`) for a stream socket,
 * where each packet follows its length. Unix *datagram* sockets are refused: Node does not support them, and the library for
 * them (unix-dgram, used by hot-shots) requires a compiler at each installation. hot-shots is not used either, since its
 * sampling, aggregation and calls per value are covered by the totals.
 */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { containerId } from './container.ts'
import { type LineFormat, LineSink, plain, rateText } from './lines.ts'
import type { Mogrify } from './mogrifiers.ts'
import { type Dial, QUEUE_BYTES_MAX, ReconnectingWriter } from './reconnecting-writer.ts'
import { DATAGRAM_BYTES, DATAGRAM_BYTES_MAX } from './statsd.ts'
import { splitTags, type Tags, withTags } from './tags.ts'
import { type ClientTransport, telemetry } from './telemetry.ts'
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

/** At the end of every line. */
export interface Globals {
  tags: Tags
  container: string // empty = not sent
}

/** Throws ConfigurationError for an address that cannot be used. */
export function dogStatsdSink({ host, port, log, redialMs, ...rest }: DogStatsdOptions): LineSink {
  const { transport, dial, peer, chunkBytes, lineBytesMax } = routeTo(host, port)
  const writer = new ReconnectingWriter({
    peer: `DogStatsD ${peer}`,
    dial,
    chunkBytes,
    lineBytesMax,
    bytesMax: QUEUE_BYTES_MAX,
    log,
    redialMs,
  })
  return new LineSink(dogStatsdFormat({ ...rest, transport }), writer)
}

interface Route {
  transport: ClientTransport
  dial: Dial
  peer: string
  chunkBytes: number
  lineBytesMax: number
}

function routeTo(host: string, port: number): Route {
  const socket = /^(unix|unixstream|unixgram):\/\/(.*)$/.exec(host)
  if (socket === null) {
    const dial = datagramDial(host, port)
    const sizes = { chunkBytes: DATAGRAM_BYTES, lineBytesMax: DATAGRAM_BYTES_MAX }
    return { transport: 'udp', dial, peer: `${host}:${port}`, ...sizes }
  }
  if (socket[1] === 'unixgram') {
    throw new ConfigurationError({
      code: 'DOGSTATSD_UNIXGRAM',
      where: 'STATSD_HOST',
      what: NO_DATAGRAMS,
      fix: `Write unixstream:// and ${INSTEAD}`,
      exitCode: 2,
    })
  }
  const dial = rejectDatagramSocket(streamDial({ path: socket[2] }, lengthPrefixed))
  return { transport: 'uds-stream', dial, peer: host, chunkBytes: PACKET_BYTES, lineBytesMax: PACKET_BYTES }
}

/** The kind of a socket is known once it is connected. The agent may create it later, so the start does not fail. */
function rejectDatagramSocket(dial: Dial): Dial {
  return (onClosed) =>
    dial(onClosed).catch((error) => {
      if (error.code !== 'EPROTOTYPE') throw error
      throw new Error(`${NO_DATAGRAMS} Please ${INSTEAD}`, { cause: error })
    })
}

const NO_DATAGRAMS = 'unix datagram sockets cannot be used.'
const INSTEAD = 'set dogstatsd_stream_socket in the agent, or use UDP.'

/** Each packet on a stream follows its length in four bytes, little-endian. */
function lengthPrefixed(packet: Buffer): Buffer {
  const length = Buffer.alloc(4)
  length.writeUInt32LE(packet.length)
  return Buffer.concat([length, packet])
}

export function dogStatsdFormat({
  tags: extraTags,
  mogrify,
  globals,
  transport,
}: Pick<DogStatsdOptions, 'tags' | 'mogrify' | 'globals'> & { transport: ClientTransport }): LineFormat {
  const globalTexts = globals.tags.map(tagText)
  const container = globals.container === '' ? '' : `|c:${globals.container}`
  return {
    head(fullName) {
      const { base, tags } = splitTags(withTags(fullName, extraTags))
      const { name, tags: more } = mogrify(base)
      const all = [...globalTexts, ...[...tags, ...more].map(tagText)]
      return {
        name: name.replaceAll(/[:|\n]/g, '_'),
        tags: (all.length > 0 ? `|#${all.join(',')}` : '') + container,
      }
    },
    counter: ({ name, tags }, delta) => `${name}:${plain(delta)}|c${tags}\n`,
    gauge: ({ name, tags }, value) => `${name}:${plain(value)}|g${tags}\n`,
    timer: ({ name, tags }, ms, samples) =>
      `${name}:${ms.toFixed(6)}|ms${samples === 1 ? '' : `|@${rateText(samples)}`}${tags}\n`,
    end: telemetry(globalTexts, transport, container),
  }
}

function tagText([key, value]: Tags[number]): string {
  return `${replaceSeparators(key)}:${replaceSeparators(value)}`
}

/** Groups of a mogrifier may have text of clients, which must not add tags. */
function replaceSeparators(text: string): string {
  return text.replaceAll(/[,|\n]/g, '_')
}

/** Reads Datadog's variables. The container is sent only without an entity id. `root` is for tests. */
export function globalsFrom(env: Readonly<Record<string, string | undefined>>, root?: string): Globals {
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
  const sendsContainer = !/^(?:0|f|false)$/i.test(env.DD_ORIGIN_DETECTION_ENABLED ?? '') && !env.DD_ENTITY_ID
  return { tags, container: sendsContainer ? containerId(root) : '' }
}
