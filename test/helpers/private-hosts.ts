/**
 * Host names that one process sees and a test changes: in its own mount namespace, /etc/hosts and /etc/resolv.conf are files of the test.
 * Needs root and a Linux that lets it mount.
 *
 *     const hosts = createPrivateHosts()
 *     spawnService({ wrapper: hosts.wrapper })
 *     hosts.set({ 'redis.test': '127.0.0.2' })      // seen with the next lookup
 *     hosts.set({})                                 // unknown: no name server answers
 *     hosts.remove()
 */
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'

export interface PrivateHosts {
  wrapper: readonly string[] // ServiceOptions.wrapper
  set(addresses: Record<string, string>): void
  remove(): void
}

const REFUSING = '127.0.0.1' // has no name server on port 53

/** `nameServer`: asked for names that are not set. */
export function createPrivateHosts(nameServer = REFUSING): PrivateHosts {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-hosts-'))
  const hosts = join(folder, 'hosts')
  const resolver = join(folder, 'resolv.conf')
  writeFileSync(resolver, `nameserver ${nameServer}\n`)
  const set = (addresses: Record<string, string>) => {
    const lines = Object.entries({ localhost: '127.0.0.1', ...addresses })
    writeFileSync(hosts, lines.map(([name, address]) => `${address} ${name}\n`).join('')) // in place, as it is mounted
  }
  set({})
  const mounts = `mount --bind '${hosts}' /etc/hosts && mount --bind '${resolver}' /etc/resolv.conf`
  return {
    wrapper: ['unshare', '-m', 'sh', '-c', `${mounts} && exec "$@"`, 'sh'],
    set,
    remove: () => rmSync(folder, { recursive: true, force: true }),
  }
}
