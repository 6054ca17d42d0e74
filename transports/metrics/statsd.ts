/**
 * Statistics for statsd (spec 7.3), over TCP or UDP. Tags are part of the name.
 *
 *     ratelimit.service.rate_limit.shop.user.total_hits.__zone=b:5|c
 *     ratelimit.localcache.entryCount.__zone=b:4|g
 *     ratelimit_server.ShouldRateLimit.response_time.__zone=b:0|ms|@0.25        four measurements
 */
import type { Log } from '../../engine/runtime/messages.ts'
import { type LineFormat, LineSink, plain, rateText } from './lines.ts'
import { QUEUE_BYTES_MAX, ReconnectingWriter } from './reconnecting-writer.ts'
import { type Tags, withTags } from './tags.ts'
import { datagramDial, streamDial } from './writers.ts'

export const STREAM_CHUNK_BYTES = 64 * 1024
export const DATAGRAM_BYTES = 1_432 // fits into an Ethernet frame, with room for tunnels
export const DATAGRAM_BYTES_MAX = 65_507 // of UDP; a line that long is sent alone

export interface StatsdOptions {
  host: string
  port: number
  protocol: 'tcp' | 'udp'
  tags: Tags
  log: Log
  redialMs?: number // for tests
}

export function statsdSink({ host, port, protocol, tags, log, redialMs }: StatsdOptions): LineSink {
  const isStream = protocol === 'tcp'
  const writer = new ReconnectingWriter({
    peer: `statsd ${host}:${port} (${protocol})`,
    dial: isStream ? streamDial({ host, port }) : datagramDial(host, port),
    chunkBytes: isStream ? STREAM_CHUNK_BYTES : DATAGRAM_BYTES,
    lineBytesMax: isStream ? STREAM_CHUNK_BYTES : DATAGRAM_BYTES_MAX,
    bytesMax: QUEUE_BYTES_MAX,
    log,
    redialMs,
  })
  return new LineSink(statsdFormat(tags), writer)
}

export function statsdFormat(extraTags: Tags): LineFormat {
  return {
    head: (name) => ({ name: withTags(name, extraTags), tags: '' }),
    counter: ({ name }, delta) => `${name}:${plain(delta)}|c\n`,
    gauge: ({ name }, value) => `${name}:${plain(value)}|g\n`,
    timer: ({ name }, ms, samples) => `${name}:${ms}|ms${samples === 1 ? '' : `|@${rateText(samples)}`}\n`,
  }
}
