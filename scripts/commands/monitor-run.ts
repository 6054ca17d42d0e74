/**
 * The monitor beside a service (MONITOR_ENABLED), in a thread of the same process, or alone (`sluice monitor`).
 *
 *     beside   shares the service's counters and rules; a failure of the monitor does not affect decisions
 *     alone    has its own counters, or those in Redis; reads rules from RUNTIME_ROOT or by xDS if configured
 */
import type { RulesImage } from '../../engine/config/rules.ts'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveModule } from '../../engine/runtime/module-url.ts'
import { VERSION } from '../../engine/runtime/version.ts'
import { parseSettings } from '../../engine/settings/parse.ts'
import { storeWarnings } from '../../engine/settings/store.ts'
import { inWrittenNames } from '../../engine/settings/written-names.ts'
import { Totals } from '../../engine/stats/totals.ts'
import { createMemoryTable } from '../../engine/stores/memory/table-layout.ts'
import type { MonitorTask } from '../../monitor/service/messages.ts'
import { type MonitorHooks, MonitorSupervisor } from '../../monitor/service/monitor-supervisor.ts'
import { monitorOptions } from '../../monitor/service/options.ts'
import { monitorRows, type Settings } from '../../monitor/settings.ts'
import { debugAddress, openDebugPort } from '../../transports/debug/open.ts'
import type { DebugServer } from '../../transports/debug/server.ts'
import { claimPorts } from '../../transports/ports.ts'
import { rulesSource } from '../../transports/rules.ts'
import type { Service } from '../../transports/service.ts'
import { Statistics } from '../../transports/statistics.ts'
import type { Io } from './io.ts'
import { createProcessLog } from './process-log.ts'
import { onShutdownSignal } from './signals.ts'

/** Throws ConfigurationError for an invalid setting of the monitor. */
export function checkMonitorSettings(settings: Settings, env: NodeJS.ProcessEnv): void {
  monitorOptions(settings, env)
}

/** Resolves with the monitor, listening or not. A failed start is retried; one that hangs is abandoned at `ended`. */
export async function startBeside(
  service: Service,
  {
    settings,
    env,
    log,
    ended,
  }: { settings: Settings; env: NodeJS.ProcessEnv; log: Log; ended: Promise<void> },
): Promise<MonitorSupervisor> {
  const hooks = {
    log,
    claim: () => claimMonitorPorts(settings, env),
    stats: service.mergeStats.bind(service),
  }
  const monitor = createMonitor({ settings, ...service.shared }, hooks)
  service.onRules = (rules) => monitor.setRules(rules)
  const begun = monitor.start().then(
    (port) => logPort(log, settings, port),
    (error: Error) => monitor.startLater(error),
  )
  await Promise.race([begun, ended])
  return monitor
}

/** Runs until a signal. Resolves with the exit code; rejects with ConfigurationError. */
export async function runMonitor(io: Io): Promise<number> {
  const { env } = io
  const parsed = parseSettings(env, monitorRows)
  const { settings } = parsed
  const { log } = createProcessLog(parsed, io.openLog())
  for (const warning of [...parsed.warnings, ...storeWarnings(parsed)]) log('warning', warning)
  checkMonitorSettings(settings, env)
  const ended = new Promise<'ended'>((resolve) => onShutdownSignal(io, log, () => resolve('ended')))
  const totals = new Totals()
  const memoryTable = createMemoryTable(settings.MEMORY_STORE_BYTES)
  const monitor = createMonitor(
    { settings, memoryTable, rules: null },
    {
      log,
      claim: () => claimMonitorPorts(settings, env),
      stats: (deltas, gauges) => {
        totals.merge(deltas, 'monitor')
        for (const [name, value] of gauges) totals.set(name, value)
      },
    },
  )
  const hasRules =
    settings.CONFIG_TYPE !== 'FILE' || Object.keys(env).some((name) => name.startsWith('RUNTIME_'))
  let rules: RulesImage | null = null
  const onRules = (image: RulesImage) => {
    rules = image
    monitor.setRules(image)
  }
  const source = hasRules ? await rulesSource({ settings, totals, log, onRules }) : null
  const collect = async () => {} // the monitor sends its metrics every second
  const statistics = await Statistics.open({ settings, totals, collect, rules: () => rules, log })
  let debug: DebugServer | null = null
  await Promise.race([source?.start(), ended])
  try {
    const [port] = await claimPorts([debugAddress(settings, log)])
    const sources = { rules: () => rules, loadFailure: () => null, stats: async () => totals.sorted() }
    debug = openDebugPort({ settings, port, log, threads: ['main'], ...sources })
    const started = await Promise.race([monitor.start(), ended])
    if (started !== 'ended') logPort(log, settings, started)
    await ended
    return 0
  } catch (error) {
    const { message, exitCode } = error as Partial<ConfigurationError> // from another thread: the fields of one, but not an instance
    throw new ConfigurationError({
      code: 'MONITOR_START',
      what: `the monitor cannot start: ${inWrittenNames(parsed.written)?.(message!) ?? message}`,
      exitCode,
    })
  } finally {
    await monitor.stop(settings.DRAIN_DELAY)
    debug?.close()
    await source?.close()
    await statistics.close()
  }
}

function createMonitor(task: Omit<MonitorTask, 'version'>, hooks: MonitorHooks): MonitorSupervisor {
  return new MonitorSupervisor(
    resolveModule('./monitor-thread.ts', import.meta.url),
    { ...task, version: VERSION },
    hooks,
  )
}

function claimMonitorPorts(settings: Settings, env: NodeJS.ProcessEnv): Promise<unknown> {
  const { host, port, agents } = monitorOptions(settings, env)
  const addresses = [{ variable: 'MONITOR_ADDR', host, port }]
  return claimPorts(agents ? [...addresses, { variable: 'AGENT_ADDR', ...agents }] : addresses)
}

function logPort(log: Log, { MONITOR_ADDR }: Settings, port: number): void {
  log('warning', `Listening for the monitor on '${MONITOR_ADDR.replace(/[0-9]+$/, String(port))}'`)
}
