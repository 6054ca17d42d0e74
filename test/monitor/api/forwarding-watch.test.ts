/** The warning about a proxy that TRUSTED_PROXIES does not name (spec 4.3). */
import { expect, test } from 'vitest'
import { DIRECT } from '../../../monitor/api/client-address.ts'
import { ForwardingWatch } from '../../../monitor/api/forwarding-watch.ts'
import { parseAddress, parseRange } from '../../../monitor/egress/address.ts'
import { send, startApi } from './setup.ts'

const NONE = new Uint8Array(0)
const XFF = { 'x-forwarded-for': '198.51.100.1' }

function logLines(
  peer: string,
  headers: Record<string, string>,
  options = DIRECT,
  requestsCount = 3,
): string[] {
  const lines: string[] = []
  const watch = new ForwardingWatch(options, (level, text) => lines.push(`${level} ${text}`))
  const req = { getHeader: (name: string) => headers[name] ?? '' }
  for (let i = 0; i < requestsCount; i++) watch.see(req, parseAddress(peer) ?? NONE)
  return lines
}

// biome-ignore format: a table
const cases: [peer: string, headers: Record<string, string>, warns: boolean][] = [
  ['127.0.0.1',         XFF,                              true],
  ['::1',               XFF,                              true],
  ['10.1.2.3',          XFF,                              true],
  ['172.31.0.1',        XFF,                              true],
  ['192.168.0.1',       XFF,                              true],
  ['100.64.0.1',        XFF,                              true],
  ['::ffff:10.1.2.3',   XFF,                              true],
  ['fd00::1',           XFF,                              true],
  ['10.1.2.3',          { forwarded: 'for=198.51.100.1' }, true],
  ['10.1.2.3',          { 'x-real-ip': '198.51.100.1' },  true],
  ['10.1.2.3',          { 'cf-connecting-ip': '1.2.3.4' }, true],
  ['10.1.2.3',          {},                               false],
  ['172.32.0.1',        XFF,                              false], // public: anyone may send it
  ['203.0.113.7',       XFF,                              false],
  ['2001:db8::1',       XFF,                              false],
  ['',                  XFF,                              false],
]
test.each(cases)('4.3: from %s with %o, TRUSTED_PROXIES empty: warned once: %s', (peer, headers, warns) => {
  expect(logLines(peer, headers).length).toBe(warns ? 1 : 0)
})

test('4.3: with TRUSTED_PROXIES set nothing is logged', () => {
  expect(logLines('10.1.2.3', XFF, { ...DIRECT, trusted: [parseRange('192.168.0.1')!] })).toEqual([])
})

test('4.3: over a socket, the log line names the setting', async () => {
  const api = await startApi()
  for (let i = 0; i < 3; i++) await send(api.port, 'GET', '/api/v1/limits', { headers: XFF })
  api.close()
  expect(api.logged).toEqual([
    'requests come from 127.0.0.1 with the header x-forwarded-for, but TRUSTED_PROXIES is empty: all clients behind that ' +
      'address share one quota. If it is your proxy, set TRUSTED_PROXIES=127.0.0.1 and CLIENT_IP_HEADER=x-forwarded-for.',
  ])
})
