/**
 * A real service with the monitor, on free ports; its sites are on this machine.
 *
 *     const service = spawnMonitor({ folder, rules: quotas(1_000), hosts: { 'relay.example.com': relay.port } })
 *     await service.logged(MONITOR_LISTENS)
 *     fetch(`${monitorUrl(service)}/sites`)
 *
 * The caller stops it.
 */
import { join } from 'node:path'
import { type RunningService, spawnService } from './service.ts'

export const MONITOR_LISTENS = "Listening for the monitor on '"

export interface MonitorSetup {
  folder: string // of the database and of catalogue.yaml
  rules: string // a rule file
  hosts?: Record<string, number> // host name → port of 127.0.0.2
  env?: Record<string, string>
}

export function spawnMonitor({ folder, rules, hosts = {}, env = {} }: MonitorSetup): RunningService {
  return spawnService({
    rules: { 'monitor.yaml': rules },
    env: { ...monitorEnv(folder, hosts), BACKEND_TYPE: 'memory', ...env },
  })
}

/** The settings of a monitor in `folder`; `hosts` as in MonitorSetup. */
export function monitorEnv(folder: string, hosts: Record<string, number>): Record<string, string> {
  const named = Object.entries(hosts).map(([name, port]) => `${name}=127.0.0.2:${port}`)
  return {
    MONITOR_ENABLED: 'true',
    MONITOR_ADDR: '127.0.0.1:0',
    MONITOR_DATA_DIR: folder,
    CATALOGUE_PATH: join(folder, 'catalogue.yaml'),
    CONNECTIVITY_CHECK_URLS: '',
    SCREENSHOTS_ENABLED: 'false',
    PROBE_INTERVAL_S: '60',
    EGRESS_TEST_ALLOW: '127.0.0.2',
    EGRESS_TEST_HOSTS: named.join(','),
  }
}

/** After it listens. */
export function monitorUrl(service: RunningService): string {
  return `http://${service.address('the monitor')}/api/v1`
}

/** A rule file with this quota per address for every class of request, by default one that no test reaches. */
export function quotas(perHour = 4_000_000_000): string {
  return `
domain: relay_monitor
descriptors:
  - key: class
    descriptors:
      - key: ip
        rate_limit: { unit: hour, requests_per_unit: ${perHour} }
`
}
