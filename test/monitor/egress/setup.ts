/**
 * What most tests here need: an Egress whose only open address is 127.0.0.2, a relay there, a name server, and a tripwire
 * on 127.0.0.1 and ::1, on the same port as the relay: what 127.0.0.2 may, 127.0.0.1 must not.
 *
 *     world.url('/path')   http://relay.example.org:<port>/path, which resolves to 127.0.0.2
 */
import type { EgressOptions } from '../../../monitor/egress/egress.ts'
import { Egress, egressSettings } from '../../../monitor/egress/egress.ts'
import type { Dns } from './dns-server.ts'
import { startDns } from './dns-server.ts'
import type { RawServer } from './raw-server.ts'
import { startRaw } from './raw-server.ts'

export interface World {
  dns: Dns
  relay: RawServer
  port: number
  egress(options?: Partial<EgressOptions>, env?: Record<string, string>): Egress
  url(path: string, host?: string): string
  tripped(): number // connections the tripwire saw
  close(): Promise<void>
}

export const RELAY = 'relay.example.org'

const PORT_TRIES_MAX = 20

/** The port is free on 127.0.0.2; another process may hold it on 127.0.0.1 or ::1, so then another one is tried. */
async function startOnOnePort(): Promise<{ relay: RawServer; wires: RawServer[] }> {
  for (let tries = 1; ; tries++) {
    const relay = await startRaw('127.0.0.2')
    const wires: RawServer[] = []
    try {
      wires.push(await startRaw('127.0.0.1', relay.port))
      wires.push(await startRaw('::1', relay.port))
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code === 'EADDRINUSE') {
        await Promise.all([relay, ...wires].map((server) => server.close()))
        if (tries < PORT_TRIES_MAX) continue
        throw error
      }
      if (wires.length === 0) throw error // without IPv6 there is no ::1
    }
    return { relay, wires }
  }
}

export async function startWorld(): Promise<World> {
  const dns = await startDns()
  const { relay, wires } = await startOnOnePort()
  const { port } = relay
  dns.setRecords(RELAY, { A: ['127.0.0.2'] })
  return {
    dns,
    relay,
    port,
    egress: (options, env) => {
      const settings = egressSettings({
        NODE_ENV: 'test',
        EGRESS_TEST_ALLOW: '127.0.0.2',
        PROBE_PORTS: `80,443,${port}`,
        ...env,
      })
      const limits = { denialStepMs: 1, ...options?.limits }
      return new Egress({ settings, version: '1.0.0', dnsServers: [dns.server], ...options, limits })
    },
    url: (path, host = RELAY) => `http://${host}:${port}${path}`,
    tripped: () => wires.reduce((sum, wire) => sum + wire.connections, 0),
    close: async () => {
      await Promise.all([dns.close(), relay.close(), ...wires.map((wire) => wire.close())])
    },
  }
}
