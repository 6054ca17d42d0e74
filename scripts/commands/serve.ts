/**
 * `sluice serve`: runs the service until a signal ends it.
 *
 *     SIGTERM, SIGINT, SIGHUP ──► health fails, running requests finish, exit 0        (spec 8.3)
 *     the same a second later ──► immediate end
 *     a signal while starting ──► exit 2 while waiting for Redis, else 0
 */
import { setMaxListeners } from 'node:events'
import { relative } from 'node:path'
import { fileURLToPath } from 'node:url'
import { block } from '../../engine/runtime/block.ts'
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
import { parseArguments, UsageError, wantsHelp } from './arguments.ts'
import type { Io } from './io.ts'
import { createLog } from './log.ts'
import { createProcessLog } from './process-log.ts'
import { onNpmEnd, onShutdownSignal } from './signals.ts'

const USAGE = `usage: sluice serve [--example]

Serves envoy.service.ratelimit.v3 over gRPC and POST /json over HTTP. All settings are environment variables.

  --example   serve the rules of examples/config and print two commands to try; the environment takes precedence
  --help      print this text and the table of settings
`

export async function serve(args: string[], io: Io): Promise<number> {
  if (wantsHelp(args)) {
    io.stdout.write(`${USAGE}\n${settingsHelp(io.stdout.columns, monitorRows)}\n`)
    return 0
  }
  let isExample: boolean
  try {
    isExample = parseArguments({ options: { example: { type: 'boolean' } } }, args).has('example')
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    io.stderr.write(`sluice serve: ${error.message}\n\n${USAGE}`)
    return 2
  }
  const env = isExample ? { ...getExampleEnv(io.env), ...io.env } : io.env
  try {
    return await runService(parseSettings(env, monitorRows), { isExample, env, io })
  } catch (error) {
    // run.ts prints the message. With LOG_FORMAT=json it is a line of the log instead.
    if (!(error instanceof ConfigurationError) || env.LOG_FORMAT?.toLowerCase() !== 'json') throw error
    createLog('info', 'json', io.openLog())('fatal', error.message)
    return error.exitCode
  }
}

async function runService(
  parsed: ParsedSettings<Settings>,
  { isExample, env, io }: { isExample: boolean; env: NodeJS.ProcessEnv; io: Io },
): Promise<number> {
  const { settings } = parsed
  const { log, endWithFatal } = createProcessLog(parsed, io.openLog())
  for (const warning of [...parsed.warnings, ...storeWarnings(parsed)]) log('warning', warning)
  if (isExample) logExampleDefaults(settings, log)
  logNodeWarnings(log)

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
  onShutdownSignal(io, log, () => ending.abort())
  onNpmEnd(io, log, () => ending.abort())
  installTestHooks(service)
  let monitor: MonitorSupervisor | null = null
  try {
    const monitorRun = settings.MONITOR_ENABLED ? await import('./monitor-run.ts') : null
    monitorRun?.checkMonitorSettings(settings, env)
    const ports = await service.start(ending.signal)
    if (monitorRun && ports) monitor = await monitorRun.startBeside(service, { settings, env, log, ended })
    if (isExample && ports) io.stdout.write(describeExample(settings, ports, !namesRules(io.env)))
    await ended
  } catch (error) {
    if (error instanceof ConfigurationError) {
      log('fatal', error.message)
      exitCode = error.exitCode
    } else failByDefect(error)
  } finally {
    await Promise.all([service.stop(), monitor?.stop(settings.DRAIN_DELAY)])
    endWithFatal()
    if (service.hasBlockedWorker) process.kill(process.pid, 'SIGKILL')
  }
  return exitCode
}

/** Node's warnings become lines of the log. */
function logNodeWarnings(log: Log): void {
  process.removeAllListeners('warning')
  process.on('warning', ({ name, message }) => {
    if (name !== 'ExperimentalWarning') log('warning', `${name}: ${message}`)
  })
}

interface TestMessage {
  crashWorker?: number // its index
  stallWorker?: number // for stallMs; absent = the main thread
  stallMs?: number
}

/** Under NODE_ENV=test the parent process can crash a worker and block threads, and this process ends with it. */
function installTestHooks(service: Service): void {
  if (process.env.NODE_ENV !== 'test' || !process.send) return
  process.on('message', ({ crashWorker, stallWorker, stallMs = 0 }: TestMessage) => {
    if (crashWorker !== undefined) service.provoke(crashWorker, { kind: 'crash' })
    else if (stallWorker !== undefined) service.provoke(stallWorker, { kind: 'stall', ms: stallMs })
    else block(stallMs)
  })
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
}

/** The settings of the example; its rules apply only if the environment sets no RUNTIME_ variable. */
function getExampleEnv(given: NodeJS.ProcessEnv): Record<string, string> {
  const env: Record<string, string> = {
    ...(!SINKS.some((name) => name in given) && { DISABLE_STATS: 'true' }),
    MONITOR_ENABLED: 'true',
    CATALOGUE_PATH: getShippedPath('examples/monitor/catalogue.yaml'),
  }
  if (namesRules(given)) return env
  const rules = {
    RUNTIME_ROOT: getShippedPath('examples/'),
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

/** The command as it is called here: the sources run in a checkout, .js files in an installed package. */
const SLUICE = import.meta.url.endsWith('.ts')
  ? `node ${displayPath(getShippedPath('scripts/sluice.mjs'))}`
  : 'sluice'

/** As a user would write it in the working directory. */
function displayPath(path: string): string {
  const fromHere = relative(process.cwd(), path)
  return fromHere.startsWith('..') ? path : fromHere
}

function getShippedPath(file: string): string {
  return fileURLToPath(resolveRoot(file))
}

function describeExample(
  settings: Settings,
  ports: { http: number; grpc: number },
  hasExampleRules: boolean,
): string {
  const { HOST, GRPC_HOST, GRPC_UDS, BACKEND_TYPE, RUNTIME_ROOT, MONITOR_ENABLED } = settings
  const { MONITOR_ADDR, CATALOGUE_PATH } = settings
  const host = (bound: string) => (bound === '0.0.0.0' || bound === '::' ? 'localhost' : bound)
  const grpc = GRPC_UDS === '' ? `${host(GRPC_HOST)}:${ports.grpc}` : `unix:${GRPC_UDS}`
  const store = BACKEND_TYPE === 'memory' ? 'its embedded store' : `counters in ${BACKEND_TYPE}`
  const body = '{"domain":"example","descriptors":[{"entries":[{"key":"user","value":"alice"}]}]}'
  const monitor = MONITOR_ENABLED
    ? `The monitor's API is at http://${MONITOR_ADDR.replace(/^0\.0\.0\.0/, 'localhost')}/api/v1; its sites are in ${displayPath(CATALOGUE_PATH)}.\n`
    : ''
  if (!hasExampleRules)
    return `\nSluice is running with ${store} and the rules below ${RUNTIME_ROOT}. Ctrl-C stops it.\n`
  return `
Sluice is running with ${store}. Try it: five times per minute is allowed.

  curl -i -d '${body}' http://${host(HOST)}:${ports.http}/json

  ${SLUICE} client -dial_string ${grpc} -domain example -descriptors user=alice

Both count on the same counter. The rules are in ${displayPath(getShippedPath('examples/config'))}; changes are loaded at once.
${monitor}Ctrl-C stops it.
`
}
