/**
 * The demo's relays, one per site, on loopback addresses, and the environments that map the sites' names to them.
 *
 *     monitor ──► relay          agent ──► relay, or for a blocked site a server that resets after the ClientHello
 */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { type Certificates, makeCertificates } from '../../../test/helpers/certificates.ts'
import { type FakeRelay, startFakeRelay } from '../../../test/helpers/fake-relays.ts'
import { DEMO_DOMAIN, DEMO_NETWORKS, type DemoSite } from './sites.ts'

const FLAP_MS = 90_000

export interface World {
  env: Record<string, string>
  agentEnv: Record<string, string> // the same for the agent in cn
  close(): Promise<void>
}

export async function startWorld(sites: readonly DemoSite[]): Promise<World> {
  const names = `DNS:*.${DEMO_DOMAIN}`
  const authority = await makeCertificates(names)
  const expired = await authority.issue('expired', { names, days: -1 })
  const createCertificate = ({ certificate }: DemoSite) => {
    if (certificate === 'none') return undefined
    const { cert, key } = certificate === 'good' ? authority : expired
    return { cert: readFileSync(cert), key: readFileSync(key) }
  }
  const relays: FakeRelay[] = []
  for (const [i, site] of sites.entries())
    relays.push(await startFakeRelay(site.relay, { host: getAddress(i), tls: createCertificate(site) }))
  const blocker = createServer((socket) => {
    socket.on('error', () => {})
    socket.once('data', () => socket.resetAndDestroy())
  })
  await once(blocker.listen(0, DEMO_NETWORKS[0].address), 'listening')
  const blockerAddress = `${DEMO_NETWORKS[0].address}:${(blocker.address() as AddressInfo).port}`
  const flapping = setInterval(() => {
    for (const [i, site] of sites.entries()) if (site.isFlapping) flap(relays[i], site)
  }, FLAP_MS)
  const hosts = (isFromCn: boolean) =>
    sites.map(({ slug, blockedFromHours }, i) => {
      const isBlocked = isFromCn && blockedFromHours !== undefined
      return `${slug}.${DEMO_DOMAIN}=${isBlocked ? blockerAddress : `${getAddress(i)}:${relays[i].port}`}`
    })
  const env = {
    NODE_ENV: 'test', // required for EGRESS_TEST_ALLOW
    EGRESS_TEST_ALLOW: DEMO_NETWORKS.map(({ address }) => address).join(','),
    EGRESS_TEST_HOSTS: hosts(false).join(','),
    NODE_EXTRA_CA_CERTS: authority.ca,
  }
  return {
    env,
    agentEnv: { ...env, EGRESS_TEST_HOSTS: hosts(true).join(',') },
    close: async () => {
      clearInterval(flapping)
      blocker.close()
      await Promise.all(relays.map((relay) => relay.close()))
      await (authority as Certificates).remove()
    },
  }
}

function getAddress(index: number): string {
  return DEMO_NETWORKS[index % DEMO_NETWORKS.length].address
}

let isFailing = false

function flap(relay: FakeRelay, { relay: kind }: DemoSite): void {
  isFailing = !isFailing
  relay.turn(isFailing ? 'failing' : kind)
}
