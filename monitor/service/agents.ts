/** The port of agents (spec 6.5), their sites, and the rotation of probes between them and the server's own prober. */
import { AgentApi, type AgentApiOptions } from '../agent/agent-api.ts'
import { ClientConnections } from '../api/client-connections.ts'
import type { OpenedPort, OpenPort } from '../api/sockets.ts'
import type { Region } from '../facts.ts'
import type { ProberSite, ToProber } from '../prober/messages.ts'

const REGIONS: readonly Region[] = ['cn', 'overseas']

export interface AgentsOptions extends AgentApiOptions {
  host: string
  port: number
  region: Region // of the server's own prober
}

export class Agents {
  private readonly api: AgentApi
  private readonly region: Region
  private readonly opened: OpenedPort

  /** Throws when the port is in use. */
  constructor(openPort: OpenPort, { host, port, region, ...options }: AgentsOptions) {
    this.region = region
    this.api = new AgentApi(options)
    const connections = new ClientConnections(options.address)
    const opened = openPort(host, port, (app) =>
      connections.serve(app, (res, req) => this.api.handle(res, req)),
    )
    if (opened === null) throw new Error(`AGENT_ADDR: ${host}:${port} cannot be listened on`)
    this.opened = opened
    options.log('warning', `Listening for agents on '${host}:${opened.port}'`)
  }

  setSites(sites: readonly (ProberSite & { regions: readonly Region[] })[], optOut: readonly string[]): void {
    this.api.setSites(sites, optOut)
  }

  /** The vantages online, for the server's own prober; sent about every 10 s. */
  turns(): Extract<ToProber, { kind: 'turns' }> {
    const all = REGIONS.flatMap((region) => this.api.online(region))
    return { kind: 'turns', online: this.api.online(this.region), isSingleVantage: all.length <= 1 }
  }

  metrics(): Record<string, number> {
    return { ...this.api.metrics() }
  }

  beginShutdown(): void {
    this.api.beginShutdown()
  }

  close(): void {
    this.opened.close()
  }
}
