/**
 * `sluice serve`: runs the service until a signal ends it.
 *
 *     SIGTERM, SIGINT, SIGHUP ──► health fails, running requests finish, exit 0        (spec 8.3)
 *     the same a second later ──► immediate end
 *     a signal while starting ──► exit 2 while waiting for Redis, else 0
 */
import { setMaxListeners } from 'node:events'
import { fileURLToPath } from 'node:url'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { resolveRoot } from '../../engine/runtime/module-url.ts'
import { settingsHelp } from '../../engine/settings/help.ts'
import { type ParsedSettings, parseSettings } from '../../engine/settings/parse.ts'
import { storeWarnings } from '../../engine/settings/store.ts'
import { rows } from '../../engine/settings/table.ts'
import type { MonitorSupervisor } from '../../monitor/service/monitor-supervisor.ts'
import { monitorRows, type Settings } from '../../monitor/settings.ts'
import { Service } from '../../transports/service.ts'
import { createLog } from './log.ts'
import { processLog } from './process-log.ts'
import { onShutdownSignal, whenNpmEnds } from './signals.ts'

const USAGE = `usage: sluice serve [--example]

Serves envoy.service.ratelimit.v3 over gRPC and POST /json over HTTP. All settings are environment variables.

  --example   serve the rules of examples/config and print two commands to try; the environment takes precedence
  --help      print this text and the table of settings
`

export async function serve(args: string[]): Promise<number> {
  if (args.some((arg) => /^--?h(elp)?$/.test(arg))) {
    process.stdout.write(`${USAGE}\n${settingsHelp(process.stdout.columns, monitorRows)}\n`)
    return 0
  }
  const unknown = args.find((arg) => arg !== '--example')
  if (unknown !== undefined) {
    process.stderr.write(`sluice serve: unknown argument "${unknown}"\n\n${USAGE}`)
    return 2
  }
  const isExample = args.length > 0
  const env = isExample ? { ...exampleEnv(process.env), ...process.env } : process.env
  const parsed = parseOrLogError(env)
  const { settings } = parsed
  const { log, endWithFatal } = processLog(parsed)
  for (const warning of [...parsed.warnings, ...storeWarnings(parsed)]) log('warning', warning)
  if (isExample) logExampleDefaults(settings, log)
  logNodeWarnings(log)
  process.stdout.on('error', () => {}) // the example's output may be closed

  const ending = new AbortController()
  setMaxListeners(0, ending.signal)
  let exitCode = 0
  const fail = () => {
    exitCode = 1
    ending.abort()
  }
  const service = new Service(settings, log, fail, { hasPublicCounters: settings.MONITOR_ENABLED })
  const failByDefect = (error: unknown) => {
    log('fatal', `a defect, please report it: ${(error as Error)?.stack ?? error}`)
    fail()
  }
  process.on('uncaughtException', failByDefect) // orderly shutdown: threads must close their ports
  const ended = new Promise<void>((resolve) => ending.signal.addEventListener('abort', () => resolve()))
  onShutdownSignal(log, () => ending.abort())
  whenNpmEnds(log, () => ending.abort())
  installTestHooks(service)
  let monitor: MonitorSupervisor | null = null
  try {
    const monitorRun = settings.MONITOR_ENABLED ? await import('./monitor-run.ts') : null
    monitorRun?.checkMonitorSettings(settings)
    const ports = await service.start(ending.signal)
    if (monitorRun && ports) monitor = await monitorRun.startBeside(service, { settings, log, ended })
    if (isExample && ports) process.stdout.write(describeExample(settings, ports, !namesRules(process.env)))
    await ended
  } catch (error) {
    if (error instanceof ConfigurationError) {
      log('fatal', error.message)
      exitCode = error.exitCode
    } else failByDefect(error)
  } finally {
    await Promise.all([service.stop(), monitor?.stop(settings.DRAIN_DELAY)])
    endWithFatal()
  }
  process.channel?.unref()
  setTimeout(() => process.exit(exitCode), EXIT_MS).unref() // only if a thread does not end
  return exitCode
}

/** Logs invalid settings as JSON if LOG_FORMAT says so; otherwise the command line prints the message alone. */
function parseOrLogError(env: NodeJS.ProcessEnv): ParsedSettings<Settings> {
  try {
    return parseSettings(env, monitorRows)
  } catch (error) {
    if (error instanceof ConfigurationError && env.LOG_FORMAT?.toLowerCase() === 'json') {
      createLog('info', 'json')('fatal', error.message)
      process.exit(error.exitCode)
    }
    throw error
  }
}

/** Node's warnings become lines of the log. */
function logNodeWarnings(log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }) => {
    if (name !== 'ExperimentalWarning') log('warning', `${name}: ${message}`)
  })
}

/** From the end of shutdown to a forced exit, whatever is still open. */
const EXIT_MS = 5_000

/** Under NODE_ENV=test the parent process can crash a worker, and this process ends with it. */
function installTestHooks(service: Service): void {
  if (process.env.NODE_ENV !== 'test' || !process.send) return
  process.on('message', (message: { crashWorker: number }) => service.crashWorker(message.crashWorker))
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
}

/** The settings of the example; its rules apply only if the environment sets no RUNTIME_ variable. */
function exampleEnv(given: NodeJS.ProcessEnv): Record<string, string> {
  const env: Record<string, string> = {
    ...(!SINKS.some((name) => name in given) && { DISABLE_STATS: 'true' }),
    MONITOR_ENABLED: 'true',
    CATALOGUE_PATH: fileURLToPath(resolveRoot('examples/monitor/catalogue.yaml')),
  }
  if (namesRules(given)) return env
  const rules = {
    RUNTIME_ROOT: fileURLToPath(resolveRoot('examples/')),
    RUNTIME_APPDIRECTORY: 'config',
    RUNTIME_WATCH_ROOT: given.RUNTIME_WATCH_ROOT ?? 'false',
  }
  return { ...env, ...rules }
}

const SINKS = rows
  .filter(({ name }) => ['USE_STATSD', 'USE_DOG_STATSD', 'USE_PROMETHEUS'].includes(name))
  .flatMap(({ name, older }) => [name, older!])

/** Defaults that `serve --example` changes besides the rules, in case it is used in production. */
function logExampleDefaults({ MONITOR_ENABLED, MONITOR_ADDR, DISABLE_STATS }: Settings, log: Log): void {
  const changes = [
    ...(MONITOR_ENABLED ? [`opens the monitor on ${MONITOR_ADDR} (MONITOR_ENABLED=false prevents it)`] : []),
    ...(DISABLE_STATS ? ['sends no statistics (DISABLE_STATS=false prevents it)'] : []),
  ]
  if (changes.length === 0) return
  log(
    'warning',
    `This is the example (serve --example): it ${changes.join(' and ')}. In production run \`sluice serve\`.`,
  )
}

const RULES_FOLDER = ['RUNTIME_ROOT', 'RUNTIME_SUBDIRECTORY', 'RUNTIME_APPDIRECTORY']

function namesRules(given: NodeJS.ProcessEnv): boolean {
  return RULES_FOLDER.some((name) => given[name] !== undefined)
}

function describeExample(
  settings: Settings,
  ports: { http: number; grpc: number },
  hasExampleRules: boolean,
): string {
  const { HOST, GRPC_HOST, GRPC_UDS, BACKEND_TYPE, RUNTIME_ROOT, MONITOR_ENABLED, MONITOR_ADDR } = settings
  const host = (bound: string) => (bound === '0.0.0.0' || bound === '::' ? 'localhost' : bound)
  const grpc = GRPC_UDS === '' ? `${host(GRPC_HOST)}:${ports.grpc}` : `unix:${GRPC_UDS}`
  const store = BACKEND_TYPE === 'memory' ? 'its embedded store' : `counters in ${BACKEND_TYPE}`
  const body = '{"domain":"example","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}'
  const monitor = MONITOR_ENABLED
    ? `The monitor's API is at http://${MONITOR_ADDR.replace(/^0\.0\.0\.0/, 'localhost')}/api/v1; see examples/monitor for how to list sites.\n`
    : ''
  if (!hasExampleRules)
    return `\nSluice is running with ${store} and the rules below ${RUNTIME_ROOT}. Ctrl-C stops it.\n`
  return `
Sluice is running with ${store}. Try it: five times per minute is allowed.

  curl -i -d '${body}' http://${host(HOST)}:${ports.http}/json

  node scripts/sluice.mjs client -dial_string ${grpc} -domain example -descriptors user=alice

Both count on the same counter. The rules are in examples/config; change them and they are read again.
${monitor}Ctrl-C stops it.
`
}
