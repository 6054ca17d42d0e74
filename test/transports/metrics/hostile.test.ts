/**
 * What callers write ends up in names (unknown domains, metric flags, overrides): whatever it is, each sink sends the lines
 * that were to be sent, and each of them says what it was to say.
 */
import { closeSync, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, expect, test } from 'vitest'
import { Stats, TOTAL_HITS } from '../../../engine/stats/stats.ts'
import { Totals } from '../../../engine/stats/totals.ts'
import { dogStatsdSink } from '../../../transports/metrics/dogstatsd.ts'
import { loadMogrifiers } from '../../../transports/metrics/mogrifiers.ts'
import { printingSink } from '../../../transports/metrics/printing.ts'
import type { Sink, Snapshot } from '../../../transports/metrics/sink.ts'
import { statsdSink } from '../../../transports/metrics/statsd.ts'
import { cleanTags } from '../../../transports/metrics/tags.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { createSnapshot, datagramPeer, notedLog, StreamPeer } from './peers.ts'
import { Scraper } from './prometheus/scrape.ts'

const HOSTILE = [
  'a\nfree:1|c',
  'b\r\nfree:1|c\r',
  'c:1|c\n',
  'd|#env:prod,zone:x',
  'e#@0.1,env:prod',
  'f.__env=prod.__zone=x',
  'g.::env=prod',
  'h"} 99\nfree{a="',
  'i\\\\" \\n{}=,',
  'j\u0000\u0007\u001b[31m\u007f\u0085\u2028',
  'k😀 é\ud800',
  `l${'x'.repeat(10 * 1024)}`, // counted under `other`
  '__m',
  'n.total_hits',
  '',
]
const tags = cleanTags({ zone: 'b' })
const EXPECTED = 2 * HOSTILE.length

const folder = makeTemporaryFolder()
const ends: (() => Promise<void>)[] = []
afterEach(async () => {
  for (const end of ends.splice(0)) await end()
})

/** Each text as a rule's key and as a domain, asked for once. */
function hostileSnapshot(): Snapshot {
  const stats = new Stats()
  for (const text of HOSTILE) {
    stats.add(stats.rule(`shop.user_${text}`) + TOTAL_HITS, 1)
    stats.add(stats.domainNotFound(text), 1)
  }
  const totals = new Totals()
  totals.merge(stats.takeDeltas(), 'a thread')
  return createSnapshot({ counters: totals.counters })
}

function opened(sink: Sink): Sink {
  sink.start()
  ends.unshift(() => sink.close())
  return sink
}

test('7.1 7.3: hostile names add no lines for statsd', async () => {
  const peer = new StreamPeer()
  ends.push(() => peer.close())
  const port = await peer.open()
  const options = { host: '127.0.0.1', port, protocol: 'tcp', tags, log: notedLog().log } as const
  await opened(statsdSink(options)).flush(hostileSnapshot())
  await eventually(() => expect(peer.lines).toHaveLength(EXPECTED))
  const line =
    /^ratelimit\.service\.rate_limit\.[^:|\p{Cc}]*\.(?:total_hits|domain_not_found)\.__zone=b:1\|c$/u
  for (const each of peer.lines) {
    expect(each).toMatch(line)
    expect(each.split('.__')).toHaveLength(2) // one tag
  }
})

test('7.1 7.5: hostile names add no lines and no tags for DogStatsD', async () => {
  const peer = await datagramPeer()
  ends.push(peer.close)
  const env = {
    DOG_STATSD_MOGRIFIER_D_PATTERN: '(?s)^ratelimit\\.service\\.rate_limit\\.(.*)\\.(\\w+)$',
    DOG_STATSD_MOGRIFIER_D_NAME: '$2',
    DOG_STATSD_MOGRIFIER_D_TAGS: 'text:$1',
  }
  for (const mogrify of [loadMogrifiers([], {}), loadMogrifiers(['D'], env)]) {
    const globals = { tags: [], container: '' }
    const options = { host: '127.0.0.1', port: peer.port, tags, mogrify, globals, log: notedLog().log }
    await opened(dogStatsdSink(options)).flush(hostileSnapshot())
  }
  const lines = () => peer.lines().filter((each) => !each.startsWith('datadog.'))
  await eventually(() => expect(lines()).toHaveLength(2 * EXPECTED))
  for (const each of lines())
    expect(each).toMatch(
      /^[^:|\p{Cc}]*(?:total_hits|domain_not_found):1\|c\|#zone:b(?:,text:[^,|\p{Cc}]*)?$/u,
    )
})

test('7.1 7.6: hostile names add no series for Prometheus', async () => {
  const snapshot = hostileSnapshot()
  const scraper = await Scraper.open({ read: async () => snapshot, tags })
  ends.push(() => scraper.sink.close())
  const samples = Object.entries(await scraper.samples()) // which fails on a line that is none
  let count = 0
  for (const [series, value] of samples) {
    expect(series).toMatch(
      /^ratelimit_service_rate_limit_\w*(?:total_hits|over_limit|domain_not_found)\{.*zone="b"\}$/,
    )
    expect(series).not.toContain('env="')
    count += value
  }
  expect(count).toBe(EXPECTED)
})

test('7.1 7.3: hostile names add no printed lines', async () => {
  const file = join(folder, 'out')
  const fd = openSync(file, 'w')
  await opened(printingSink(tags, notedLog().log, fd)).flush(hostileSnapshot())
  const lines = () => readFileSync(file, 'utf8').split('\n').slice(0, -1)
  await eventually(() => expect(lines()).toHaveLength(EXPECTED + 1))
  const names = lines().map((line) => JSON.parse(line).json.name as string | undefined)
  expect(names.filter((name) => name?.startsWith('ratelimit.service.rate_limit.'))).toHaveLength(EXPECTED)
  closeSync(fd)
})
