/**
 * `npm run demo`: a running monitor with sites and history in one command, without internet access.
 *
 *     relays on loopback ─► one full probe of each ─► 30 days of history ─► the monitor probes them from now on,
 *                                                                          and an agent acts as a vantage in cn
 *
 * All files are in a temporary folder, which is removed when the demo ends, at whatever stage. SIGKILL leaves the folder; the
 * processes of the demo end all the same.
 */
import { mkdtempSync, rmSync } from 'node:fs'
import { constants, tmpdir } from 'node:os'
import { join } from 'node:path'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { claimPorts } from '../../transports/ports.ts'
import { doneDetection, newDetection, toWrite } from './demo/detections.ts'
import { type DemoOptions, parseDemoOptions, USAGE } from './demo/options.ts'
import { createProbeContext, observe, prepareDatabase, storeWrites } from './demo/prepare.ts'
import { DemoProcesses } from './demo/processes.ts'
import { Progress } from './demo/progress.ts'
import { waitUntilReady } from './demo/ready.ts'
import { agentEnv, monitorEnv } from './demo/settings.ts'
import { DEMO_SITES, SLOW_SUBMISSION, siteUrl } from './demo/sites.ts'
import { startWorld, type World } from './demo/world.ts'

const AGENT_HOST = '127.0.0.1'
const SIGNALS = ['SIGINT', 'SIGTERM', 'SIGHUP'] as const
const CLOSED_OUTPUT = ['EPIPE', 'EIO'] // of a pipe without a reader, and of a terminal that was closed
type Ending = NodeJS.Signals | 'closed output'

/** The demo was ended before it was up. */
class Stopped extends Error {}

class Demo {
  private readonly startedMs = performance.now()
  private readonly options: DemoOptions
  private readonly folder = mkdtempSync(join(tmpdir(), 'sluice-demo-'))
  private readonly progress = new Progress(process.stdout)
  private readonly processes = new DemoProcesses()
  private world: World | null = null
  private ending: Ending | null = null // why it ends; null = it does not, or the monitor has ended by itself
  private isUp = false

  constructor(options: DemoOptions) {
    this.options = options
    process.env.TMPDIR = this.folder // also for the relays' certificates
    process.once('exit', () => this.removeFiles())
    for (const name of SIGNALS) process.on(name, () => this.onSignal(name))
    for (const stream of [process.stdout, process.stderr])
      stream.on('error', (error: NodeJS.ErrnoException) => this.onOutputError(error))
  }

  /** Resolves with the exit code when the demo has ended. */
  async run(): Promise<number> {
    try {
      const ended = await this.start()
      const code = await ended
      if (this.ending === null) process.stderr.write(`demo: the monitor has ended with exit code ${code}\n`)
      return this.ending === null ? code || 1 : this.exitCode(this.ending)
    } catch (error) {
      if (this.ending === null) throw error
      return this.exitCode(this.ending)
    } finally {
      this.progress.clear()
      await this.processes.end()
      await this.world?.close()
      this.removeFiles()
    }
  }

  /** Resolves when the demo is up, with a promise of the monitor's exit code. */
  private async start(): Promise<Promise<number>> {
    const { host, port: wantedPort, days } = this.options
    const [port, agentPort] = await claimPorts([
      { variable: '--addr', host, port: wantedPort },
      { variable: 'the port of the agent', host: AGENT_HOST, port: 0 },
    ])
    const addr = `${host.includes(':') ? `[${host}]` : host}:${port}`
    const places = { folder: this.folder, addr, agentAddr: `${AGENT_HOST}:${agentPort}` }

    this.show(`Starting ${DEMO_SITES.length} relays on this machine`)
    const world = await startWorld(DEMO_SITES)
    this.world = world
    const context = await createProbeContext(world, this.folder)
    const observations = await observe(world, context, DEMO_SITES)

    const stage = `Generating ${days} days of history`
    this.show(stage)
    const nowSec = Math.floor(Date.now() / 1_000)
    const { token, probesCount } = await prepareDatabase({
      ...{ folder: this.folder, sites: DEMO_SITES, observations, days, nowSec },
      onProgress: (share) => this.show(stage, share),
    })
    const running = newDetection(`https://${SLOW_SUBMISSION.host}`, Date.now())
    await storeWrites(this.folder, [toWrite(running)])

    this.show('Starting the monitor')
    const ended = this.processes.start(['monitor'], monitorEnv(world, places))
    const [isReady, done] = await Promise.all([
      Promise.race([
        waitUntilReady(`http://${addr}/readyz`, () => this.ending !== null),
        ended.then(() => false),
      ]),
      doneDetection(context, siteUrl(DEMO_SITES[0])),
    ])
    if (this.ending !== null) throw new Stopped()
    if (!isReady) return ended
    await storeWrites(this.folder, [toWrite(done)])
    void this.processes.start(['monitor', 'agent'], agentEnv(world, places, token))
    this.progress.clear()
    this.isUp = true
    process.stdout.write(this.describe(addr, { probesCount, running: running.id, done: done.id }))
    return ended
  }

  private show(stage: string, share?: number): void {
    if (this.ending !== null) throw new Stopped()
    this.progress.show(stage, share)
  }

  /** The first one ends the demo in order, a later one at once. */
  private onSignal(name: NodeJS.Signals): void {
    const isFirst = this.ending === null
    this.ending ??= name
    this.processes.kill(isFirst ? name : 'SIGKILL')
  }

  /** Without a reader, as after `npm run demo | head -1`, nobody knows the addresses: the demo ends in order. */
  private onOutputError(error: NodeJS.ErrnoException): void {
    if (!CLOSED_OUTPUT.includes(error.code!)) throw error
    if (this.ending !== null) return // each further write fails, too
    this.ending = 'closed output'
    this.processes.kill('SIGTERM')
  }

  /** To be stopped is how the demo ends, once it is up. */
  private exitCode(ending: Ending): number {
    return this.isUp || ending === 'closed output' ? 0 : 128 + constants.signals[ending]
  }

  private removeFiles(): void {
    if (!this.options.keepsFiles) rmSync(this.folder, { recursive: true, force: true })
  }

  private describe(
    addr: string,
    { probesCount, running, done }: { probesCount: number; running: string; done: string },
  ) {
    const base = `http://${addr}`
    const seconds = ((performance.now() - this.startedMs) / 1_000).toFixed(1)
    const files = this.options.keepsFiles ? `keeps its files in ${this.folder}` : 'removes its files'
    return `The monitor is up after ${seconds} s, with ${DEMO_SITES.length} relays and ${probesCount} probes of them. Three pages to look at:

  ${base}/              which relay works right now, from China and from overseas
  ${base}/sites/bamboo  works from overseas, likely blocked in China: how sure is that?
  ${base}/leaderboard   who leads, and why Mirage is warned of: it claims models that it does not list

  A submitted relay is being measured, for some 20 s: ${base}/detections/${running}
  One that was measured before:                      ${base}/detections/${done}
  The API behind all pages: ${base}/docs. In Chinese: ?lang=zh-CN

All sites and measurements are invented. The relays run on this machine, and only this machine reaches the monitor.
Ctrl-C ends the demo and ${files}.
`
  }
}

/** Null for --help. */
function readOptions(): DemoOptions | null {
  try {
    return parseDemoOptions(process.argv.slice(2))
  } catch (error) {
    process.stderr.write(`demo: ${(error as Error).message}\n\n${USAGE}`)
    process.exit(2)
  }
}

try {
  const options = readOptions()
  if (options === null) process.stdout.write(USAGE)
  else process.exitCode = await new Demo(options).run()
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error
  process.stderr.write(`demo: ${error.message}\n`)
  process.exitCode = error.exitCode
}
