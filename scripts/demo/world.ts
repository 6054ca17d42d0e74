/**
 * Small relays on 127.0.0.2, one per site of the demo, under names that lead nowhere else; and the environment in which the
 * monitor finds them.
 */
import { readFileSync } from 'node:fs'
import { type Certificates, makeCertificates } from '../../test/helpers/certificates.ts'
import { type FakeRelay, startFakeRelay } from '../../test/helpers/fake-relays.ts'
import { DEMO_DOMAIN, type DemoSite } from './sites.ts'

const FLAP_MS = 90_000

export interface World {
  env: Record<string, string>
  close(): Promise<void>
}

export async function startWorld(sites: readonly DemoSite[]): Promise<World> {
  const names = `DNS:*.${DEMO_DOMAIN}`
  const authority = await makeCertificates(names)
  const expired = await authority.issue('expired', { names, days: -1 })
  const pairOf = ({ certificate }: DemoSite) => {
    if (certificate === 'none') return undefined
    const { cert, key } = certificate === 'good' ? authority : expired
    return { cert: readFileSync(cert), key: readFileSync(key) }
  }
  const relays: FakeRelay[] = []
  for (const site of sites) relays.push(await startFakeRelay(site.relay, { tls: pairOf(site) }))
  const flapping = setInterval(() => {
    for (const [i, site] of sites.entries()) if (site.isFlapping) flap(relays[i], site)
  }, FLAP_MS)
  const hosts = sites.map(({ slug }, i) => `${slug}.${DEMO_DOMAIN}=127.0.0.2:${relays[i].port}`)
  return {
    env: {
      NODE_ENV: 'test', // or addresses of this machine stay closed
      EGRESS_TEST_ALLOW: '127.0.0.2',
      EGRESS_TEST_HOSTS: hosts.join(','),
      NODE_EXTRA_CA_CERTS: authority.ca,
    },
    close: async () => {
      clearInterval(flapping)
      await Promise.all(relays.map((relay) => relay.close()))
      await (authority as Certificates).remove()
    },
  }
}

let isAway = false

function flap(relay: FakeRelay, { relay: kind }: DemoSite): void {
  isAway = !isAway
  relay.turn(isAway ? 'failing' : kind)
}
