/**
 * Fake relays by name, as a probe sees them: each kind is at `http://<kind>.example.org`, or with TLS at
 * `https://<name>.example.org`, on 127.0.0.2; every other name is resolved by the test's own name server.
 *
 * Results must not depend on how busy the machine is: deadlines are long, and short only for hosts that never
 * respond (`SILENT`); no response is slow unless a test asks for it with `SLOW`.
 */
import { readFileSync } from 'node:fs'
import type { EgressOptions, Handshake, Visit, VisitRequest } from '../../../monitor/egress/egress.ts'
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import { NO_ASN_TABLE } from '../../../monitor/probe/asn.ts'
import type { ProbeContext, ProbeTarget } from '../../../monitor/probe/probe.ts'
import type { Certificates, Pair } from '../../helpers/certificates.ts'
import { makeCertificates } from '../../helpers/certificates.ts'
import type { FakeRelay, RelayKind } from '../../helpers/fake-relays.ts'
import { RELAYS, startFakeRelay } from '../../helpers/fake-relays.ts'
import type { Dns } from '../egress/dns-server.ts'
import { startDns } from '../egress/dns-server.ts'

export const NOW_SEC = Math.floor(Date.now() / 1_000) // certificates are of now; the probes' clock stands still
export const SLOW = { slowMs: 150 } // the relay `slow` takes SLOW_RELAY_MS
const SLOW_RELAY_MS = 250
const NEVER_SLOW_MS = 60_000
const SILENT = /^(silent|hello)\./
const LONG_DEADLINES = {
  dnsMs: 60_000,
  firstByteMs: 60_000,
  connectMs: 60_000,
  tlsMs: 60_000,
  bodyMs: 60_000,
}
const SHORT_DEADLINES = { firstByteMs: 400, connectMs: 400, tlsMs: 400, bodyMs: 400 }

export interface Relays {
  dns: Dns
  relays: Record<string, FakeRelay> // by name
  impatient: Egress // deadlines of 400 ms for every host
  context(changes?: Partial<ProbeContext>): ProbeContext
  target(name: string, changes?: Partial<ProbeTarget>): ProbeTarget
  close(): Promise<void>
}

/** `overTls`: name → what is served there, and with which certificate. */
export type TlsRelay = { kind: RelayKind; certificate: 'good' | 'expired' | 'wrong' | 'strange' }

export async function startRelays(overTls: Record<string, TlsRelay> = {}): Promise<Relays> {
  const dns = await startDns()
  const relays: Record<string, FakeRelay> = {}
  for (const kind of Object.keys(RELAYS) as RelayKind[])
    relays[kind] = await startFakeRelay(kind, { delayMs: SLOW_RELAY_MS })

  const isTls = Object.keys(overTls).length > 0
  const authorities: Certificates[] = []
  let ca: string | undefined
  if (isTls) {
    const names = 'DNS:*.example.org'
    const [good, strange] = await Promise.all([makeCertificates(names), makeCertificates(names)])
    authorities.push(good, strange)
    ca = readFileSync(good.ca, 'utf8')
    const expired = await good.issue('expired', { names, days: -1 })
    const wrong = await good.issue('wrong', { names: 'DNS:other.example.net' })
    const pairs: Record<TlsRelay['certificate'], Pair> = { good, strange, expired, wrong }
    for (const [name, { kind, certificate }] of Object.entries(overTls)) {
      const { cert, key } = pairs[certificate]
      relays[name] = await startFakeRelay(kind, { tls: { cert: readFileSync(cert), key: readFileSync(key) } })
    }
  }
  const hosts = Object.entries(relays).map(([name, { port }]) => `${name}.example.org=127.0.0.2:${port}`)
  const settings = egressSettings({
    NODE_ENV: 'test',
    EGRESS_TEST_ALLOW: '127.0.0.2',
    EGRESS_TEST_HOSTS: hosts.join(','),
  })
  const limits = { denialStepMs: 1, ...LONG_DEADLINES }
  const options: EgressOptions = { settings, version: '1.0.0', dnsServers: [dns.server], limits, ca }
  const impatient = new Egress({ ...options, limits: { ...limits, ...SHORT_DEADLINES } })
  const egress = new PatientEgress(options, impatient)
  return {
    dns,
    relays,
    impatient,
    context: (changes) => ({
      egress,
      asn: NO_ASN_TABLE,
      nowMs: () => NOW_SEC * 1_000,
      slowMs: NEVER_SLOW_MS,
      ...changes,
    }),
    target: (name, changes) => {
      const url = `${name in overTls ? 'https' : 'http'}://${name}.example.org`
      return { url, apiBase: url, purpose: 'catalogue', ...changes }
    },
    close: async () => {
      await Promise.all([dns, ...Object.values(relays)].map((server) => server.close()))
      await Promise.all(authorities.map((authority) => authority.remove()))
    },
  }
}

class PatientEgress extends Egress {
  private readonly impatient: Egress

  constructor(options: EgressOptions, impatient: Egress) {
    super(options)
    this.impatient = impatient
  }

  override visit(request: VisitRequest): Promise<Visit> {
    return SILENT.test(new URL(request.url).hostname) ? this.impatient.visit(request) : super.visit(request)
  }

  override handshake(request: Parameters<Egress['handshake']>[0]): Promise<Handshake> {
    const isSilent = SILENT.test(new URL(request.url).hostname)
    return isSilent ? this.impatient.handshake(request) : super.handshake(request)
  }
}
