/**
 * Everything the demo measures, on loopback addresses: a relay per site, and the environments that map the hosts to them.
 *
 *     monitor ──► relay          agent in cn ──► relay, or of a blocked site: a denied address (dns), a server that resets (tls)
 */
import { readFileSync } from 'node:fs'
import { type Certificates, makeCertificates, type Pair } from '../../../test/helpers/certificates.ts'
import { type DemoRelay, type Pem, startBlocker, startDemoRelay } from './relays.ts'
import { DEMO_NETWORKS, type DemoSite, SLOW_SUBMISSION } from './sites.ts'

const NAMES = ['com', 'net', 'org'].flatMap((end) => [`DNS:*.example.${end}`, `DNS:*.aurora.example.${end}`])
const CERTIFICATE_DAYS = 74
const DENIED_ADDRESS = '127.0.0.9' // not in EGRESS_TEST_ALLOW: like a poisoned answer, dns_bogus

export interface World {
  env: Record<string, string>
  agentEnv: Record<string, string> // the same for the agent in cn
  /** The relays turn from well to what they are today. */
  turnToToday(): void
  /** From now on replies take as long as they would over the Internet. */
  delayReplies(): void
  close(): Promise<void>
}

export async function startWorld(sites: readonly DemoSite[]): Promise<World> {
  const authority = await makeCertificates(NAMES[0], 'Demo CA')
  const names = NAMES.join(',')
  const [well, expired] = await Promise.all([
    authority.issue('well', { names, days: CERTIFICATE_DAYS }),
    authority.issue('expired', { names, days: -1 }),
  ]).then((pairs) => pairs.map(readPair))
  const relays = await Promise.all(
    [...sites, slowSubmission(sites[0])].map((site, i) => {
      const { address } = DEMO_NETWORKS[i % DEMO_NETWORKS.length]
      return startDemoRelay(site, { address, well, expired })
    }),
  )
  const blocker = await startBlocker(DEMO_NETWORKS[0].address)
  const blockedPorts = { dns: `${DENIED_ADDRESS}:443`, tls: `${DEMO_NETWORKS[0].address}:${blocker.port}` }
  const fromOverseas = relays.map(({ site, address, ports }) => `${site.host}=${address}:${ports.overseas}`)
  const fromCn = relays.map(({ site, address, ports }) => {
    const { blockedInCn } = site
    return `${site.host}=${blockedInCn ? blockedPorts[blockedInCn.layer] : `${address}:${ports.cn}`}`
  })
  const env = {
    NODE_ENV: 'test', // required for EGRESS_TEST_ALLOW
    EGRESS_TEST_ALLOW: DEMO_NETWORKS.map(({ address }) => address).join(','),
    EGRESS_TEST_HOSTS: fromOverseas.join(','),
    NODE_EXTRA_CA_CERTS: authority.ca,
  }
  return {
    env,
    agentEnv: { ...env, EGRESS_TEST_HOSTS: fromCn.join(',') },
    turnToToday: () => {
      for (const relay of relays) relay.turnToToday()
    },
    delayReplies: () => {
      for (const relay of relays) relay.delayReplies()
    },
    close: () => closeAll(relays, blocker, authority),
  }
}

/** A relay like another one, which takes so long that its detection can be watched. */
function slowSubmission(like: DemoSite): DemoSite {
  const { host, replyMs } = SLOW_SUBMISSION
  const name = { slug: 'lagoon', name: 'Lagoon Models', line: 'Still waters.', colour: '#0e7490' }
  return { ...like, ...name, host, serverMs: replyMs, now: undefined, isBehindCdn: false }
}

async function closeAll(
  relays: readonly DemoRelay[],
  blocker: { close(): Promise<void> },
  authority: Certificates,
) {
  await Promise.all([...relays, blocker].map((each) => each.close()))
  await authority.remove()
}

function readPair({ cert, key }: Pair): Pem {
  return { cert: readFileSync(cert), key: readFileSync(key) }
}
