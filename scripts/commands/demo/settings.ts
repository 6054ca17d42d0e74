/**
 * The settings of the demo's monitor and agent, and their files: the one place for what the demo switches on.
 *
 *     folder/  catalogue.yaml  ip2asn.tsv  monitor.sqlite  agent/
 */
import { join } from 'node:path'
import type { World } from './world.ts'

export const DEMO_VANTAGE = { name: 'frankfurt', region: 'overseas', country: 'DE' } as const
export const DEMO_AGENT = { name: 'shanghai', region: 'cn', country: 'CN' } as const

export interface DemoPlaces {
  folder: string // of all files
  addr: string // of the public port, host:port
  agentAddr: string // of the port agents poll
}

export function cataloguePath(folder: string): string {
  return join(folder, 'catalogue.yaml')
}

export function asnPath(folder: string): string {
  return join(folder, 'ip2asn.tsv')
}

export function monitorEnv(
  { env }: Pick<World, 'env'>,
  { folder, addr, agentAddr }: DemoPlaces,
): Record<string, string> {
  return {
    ...env,
    CATALOGUE_PATH: cataloguePath(folder),
    ASN_DB: asnPath(folder),
    MONITOR_DATA_DIR: folder,
    MONITOR_ADDR: addr,
    AGENT_ADDR: agentAddr,
    VANTAGE_NAME: DEMO_VANTAGE.name,
    VANTAGE_REGION: DEMO_VANTAGE.region,
    VANTAGE_COUNTRY: DEMO_VANTAGE.country,
    SUPPORT_EMAIL: 'monitor@example.org',
    PROBE_INTERVAL_S: '60',
    CONNECTIVITY_CHECK_URLS: '',
    BACKEND_TYPE: 'memory',
    DISABLE_STATS: 'true',
    DEBUG_PORT: '0',
    DEBUG_HOST: '127.0.0.1',
    SCREENSHOTS_ENABLED: 'auto',
    ...(process.getuid?.() === 0 ? { SCREENSHOT_NO_SANDBOX: 'true' } : {}), // the only pages are the demo's own
    LOG_LEVEL: 'error',
  }
}

export function agentEnv(
  { agentEnv: env }: Pick<World, 'agentEnv'>,
  { folder, agentAddr }: DemoPlaces,
  token: string,
): Record<string, string> {
  return {
    ...env,
    AGENT_SERVER: `http://${agentAddr}`,
    AGENT_TOKEN: token,
    MONITOR_DATA_DIR: join(folder, 'agent'),
    CONNECTIVITY_CHECK_URLS: '',
    LOG_LEVEL: 'error',
  }
}
