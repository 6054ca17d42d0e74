import { expect, test, vi } from 'vitest'
import { Totals } from '../../../engine/stats/totals.ts'
import { ConnectionReporter } from '../../../transports/xds/connection-reporter.ts'
import { startXdsServer } from '../../helpers/xds-server.ts'
import { follow } from './harness.ts'

vi.mock('../../../engine/runtime/job-thread.ts', () => import('./shared-job-thread.ts'))

const LOST = 'error Failed to receive configuration from xDS Management Server:'

/** What is told below debug. */
function started() {
  const clock = { ms: 1_000_000 }
  const lines: string[] = []
  const away: (Date | null)[] = []
  const log = (level: string, message: string) => {
    if (level !== 'debug') lines.push(`${level} ${message}`)
  }
  const onDisconnected = (since: Date | null) => away.push(since)
  const news = new ConnectionReporter({ log, totals: new Totals(), onDisconnected }, () => clock.ms)
  return { clock, lines, away, news }
}

function flap({ news, clock }: ReturnType<typeof started>, times: number, reasons: string[]): void {
  for (let i = 0; i < times; i++) {
    news.connected('xds:1')
    news.lost(reasons[i % reasons.length], 2_000)
    clock.ms += 2_000
  }
}

test('8.6, 11.1: a server that takes us in and throws us out for an hour is a line a minute, for each reason', () => {
  const one = started()
  flap(one, 31, ['no']) // a minute, and a bit
  expect(one.lines).toEqual([
    'info connected to xds:1 for rules',
    `${LOST} no; again in 2s`,
    `${LOST} no; again in 2s (29 more were left out)`,
  ])
  const two = started()
  flap(two, 1_800, ['no', 'not now'])
  expect(two.lines).toHaveLength(1 + 2 * 60)
})

test('8.6, 11.1: reasons that are never the same again share a minute', () => {
  const { news, lines } = started()
  for (let i = 0; i < 100; i++) news.lost(`request ${i}`, 0)
  expect(lines).toHaveLength(17)
})

test('8.6, 11.1: when all was well, it is news again', () => {
  const { news, lines, clock } = started()
  for (let i = 0; i < 3; i++) {
    news.connected('xds:1')
    news.settled()
    news.lost('no', 1_000)
    clock.ms += 1_000
  }
  expect(lines).toHaveLength(6)
})

test('8.2, 8.6: disconnected since the first loss, despite short connections', () => {
  const flapping = started()
  flap(flapping, 3, ['no'])
  const start = new Date(1_000_000)
  expect(flapping.away).toEqual([start, null, start, null, start, null, start])
  flapping.news.settled()
  flapping.news.lost('no', 0)
  expect(flapping.away.at(-1)).toEqual(new Date(1_006_000))
})

test('8.6, 11.1: a server that ends each stream at once, over real sockets', async () => {
  const server = await startXdsServer()
  const { lines } = follow(server.target)
  for (let i = 0; i < 6; i++) {
    await server.request()
    server.endStreams()
  }
  await server.request()
  expect(lines.filter((line) => !line.startsWith('debug '))).toEqual([
    `info Waiting for rules from ${server.target}`,
    `info connected to ${server.target} for rules`,
    expect.stringMatching(`^${LOST} the server ended the stream; again in `),
  ])
})
