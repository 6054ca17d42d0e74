/**
 * Without a selected sink, statistics are printed (spec 7.3): a JSON line per value, on standard output.
 *
 *     {"level":"debug","ts":1795267728.250000,"logger":"gostats.loggingsink","msg":"flushing counter",
 *      "json":{"name":"ratelimit.service.config_load_success","type":"counter","value":"1.000000"}}      in one line
 *
 * envoyproxy/ratelimit writes to standard error, unlike its README; here only the log does. Equal measurements of a timer are
 * one line with a member `samples`; envoyproxy/ratelimit prints one line each. Writes use Node's file threads, so a reader
 * that stops blocks one of those and not this thread.
 */
import { write } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Log } from '../../engine/runtime/messages.ts'
import { type LineFormat, LineSink } from './lines.ts'
import { QUEUE_BYTES_MAX, ReconnectingWriter, type Writer } from './reconnecting-writer.ts'
import { type Tags, withTags } from './tags.ts'

const CHUNK_BYTES = 64 * 1024
const FULL_PAUSE_MS = 50 // when a pipe is full

/** `fd` and `nowMs` are for tests. */
export function printingSink(tags: Tags, log: Log, fd = 1, nowMs: () => number = Date.now): LineSink {
  const writer = new ReconnectingWriter({
    peer: 'standard output',
    dial: async () => fileWriter(fd),
    chunkBytes: CHUNK_BYTES,
    lineBytesMax: CHUNK_BYTES,
    bytesMax: QUEUE_BYTES_MAX,
    log,
  })
  return new LineSink(printingFormat(tags, nowMs), writer)
}

function printingFormat(extraTags: Tags, nowMs: () => number): LineFormat {
  const line = (msg: string, json: object) => {
    const ts = (nowMs() / 1_000).toFixed(6) // a number in the line, which JSON.stringify would shorten
    return `{"level":"debug","ts":${ts},"logger":"gostats.loggingsink","msg":"${msg}","json":${JSON.stringify(json)}}\n`
  }
  const value = (type: string, name: string, number: number, rest = {}) =>
    line(`flushing ${type}`, { name, type, value: number.toFixed(6), ...rest })
  return {
    head: (name) => ({ name: withTags(name, extraTags), tags: '' }),
    counter: ({ name }, delta) => value('counter', name, delta),
    gauge: ({ name }, now) => value('gauge', name, now),
    timer: ({ name }, ms, samples) => value('timer', name, ms, samples === 1 ? {} : { samples }),
    end: () => [line('flushing all stats', { type: 'all stats', value: '0.000000' })],
  }
}

function fileWriter(fd: number): Writer {
  let isOpen = true
  return {
    async write(bytes) {
      for (let offset = 0; offset < bytes.length; ) {
        if (!isOpen) throw new Error('closed')
        offset += await writeSome(fd, bytes.subarray(offset))
      }
    },
    close() {
      isOpen = false
    },
  }
}

/** Returns the bytes written; 0 after a pause if the pipe is full. */
function writeSome(fd: number, bytes: Buffer): Promise<number> {
  return new Promise((resolve, reject) => {
    write(fd, bytes, 0, bytes.length, null, (error, count) => {
      if (error === null) resolve(count)
      else if (error.code === 'EAGAIN') resolve(sleep(FULL_PAUSE_MS, 0))
      else reject(error)
    })
  })
}
