/** Which address a probe tells: the one that was connected to, or tried at last. */
import { createServer } from 'node:http'
import { type AddressInfo, connect } from 'node:net'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import { NO_ASN_TABLE } from '../../../monitor/probe/asn.ts'
import { fullProbe } from '../../../monitor/probe/full.ts'
import { lightProbe, type ProbeTarget } from '../../../monitor/probe/probe.ts'
import { type FakeRelay, startFakeRelay } from '../../helpers/fake-relays.ts'
import { freePort } from '../../helpers/ports.ts'
import { type Dns, startDns } from '../egress/dns-server.ts'

const HOST = 'many.example.org'
const [RELAY, NOBODY, NEITHER] = ['127.0.0.2', '127.0.0.4', '127.0.0.5']
const PROXY = '127.0.0.3'

let dns: Dns
let relay: FakeRelay
beforeAll(async () => {
  dns = await startDns()
  relay = await startFakeRelay('new-api')
})
afterAll(() => Promise.all([dns.close(), relay.close()]))

/** What a light and a full probe tell. */
async function probeAddresses(port: number, env: Record<string, string> = {}): Promise<unknown[]> {
  const allowed = [RELAY, NOBODY, NEITHER].join(',')
  const settings = egressSettings({ NODE_ENV: 'test', EGRESS_TEST_ALLOW: allowed, ...env })
  const egress = new Egress({ settings, version: '1.0.0', dnsServers: [dns.server] })
  const context = { egress, asn: NO_ASN_TABLE, nowMs: Date.now }
  const url = `http://${HOST}:${port}`
  const target: ProbeTarget = { url, apiBase: url, purpose: 'catalogue', extraPort: port }
  const probes = [await lightProbe(context, target), await fullProbe(context, target)]
  return probes.map(({ probe }) => [probe.error, probe.address])
}

const both = <T>(outcome: T): T[] => [outcome, outcome]

test('6.5: of several addresses the one that responded', async () => {
  dns.setRecords(HOST, { A: [NOBODY, RELAY, NEITHER] })
  expect(await probeAddresses(relay.port)).toEqual(both([null, RELAY]))
})

test('6.5: if none responds, the last that was tried', async () => {
  dns.setRecords(HOST, { A: [RELAY, NOBODY] })
  expect(await probeAddresses(await freePort())).toEqual(both(['connect_refused', NOBODY]))
})

test('6.5: none without an address of the name', async () => {
  dns.setRecords(HOST, { A: [], AAAA: [] })
  const outcome = await probeAddresses(relay.port)
  expect(outcome).toEqual(both([expect.stringMatching(/^dns_/), null]))
})

test('5.8, 6.5: none behind a proxy, whether or not the target responds', async () => {
  const proxy = createServer()
  await new Promise<void>((resolve) => proxy.listen(0, PROXY, resolve))
  onTestFinished(() => {
    proxy.close()
  })
  const env = { EGRESS_PROXY: `http://${PROXY}:${(proxy.address() as AddressInfo).port}` }
  proxy.on('connect', (_request, socket) => {
    const target = connect(relay.port, RELAY, () => socket.write('HTTP/1.1 200 OK\r\n\r\n'))
    for (const [one, other] of [[socket, target] as const, [target, socket] as const]) {
      one.on('error', () => {})
      one.on('close', () => other.destroy())
      one.pipe(other)
    }
  })
  expect(await probeAddresses(relay.port, env)).toEqual(both([null, null]))
  proxy.removeAllListeners('connect')
  proxy.on('connect', (_request, socket) => socket.end('HTTP/1.1 504 Gateway Timeout\r\n\r\n'))
  expect(await probeAddresses(relay.port, env)).toEqual(both(['connect_timeout', null]))
})
