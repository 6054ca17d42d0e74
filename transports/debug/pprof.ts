/**
 * `/debug/pprof/`: profiles of all threads in the format of `go tool pprof`.
 *
 *     go tool pprof -top http://127.0.0.1:6070/debug/pprof/profile?seconds=10
 *
 * One profile at a time, since two would measure each other. A client that disconnects ends its profile.
 */
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Exchange } from './exchange.ts'
import { type InspectOptions, inspect } from './inspect.ts'
import { mergeProfiles } from './merge.ts'
import { trace } from './trace.ts'

export const PPROF = '/debug/pprof/'

const SECONDS_MIN = 1
const SECONDS_MAX = 300

interface Profile {
  help: string
  defaultSec: number
  /** Sends the response, unless the client has disconnected. */
  run(exchange: Exchange, options: InspectOptions): Promise<void>
}

const PROFILES: Record<string, Profile> = {
  heap: {
    help: 'memory allocated during the profile and still in use, by function',
    defaultSec: 30,
    run: (exchange, options) => sendMerged(exchange, 'heap', options),
  },
  profile: {
    help: 'CPU profile: functions that the threads execute',
    defaultSec: 30,
    run: (exchange, options) => sendMerged(exchange, 'cpu', options),
  },
  trace: {
    help: 'garbage collections and event loop turns as trace-event JSON, for ui.perfetto.dev',
    defaultSec: 1,
    async run(exchange, options) {
      const pieces = await trace(options)
      if (pieces) await exchange.sendPieces(pieces, fileHead('application/json', 'trace.json'))
    },
  },
}

const CMDLINE = 'cmdline'

export class Pprof {
  private readonly threads: readonly string[]
  private running: { what: string; seconds: number; startedMs: number } | null = null

  /** `threads` must respond. */
  constructor(threads: readonly string[]) {
    this.threads = threads
  }

  /** Never rejects. */
  async respond(exchange: Exchange): Promise<void> {
    const what = exchange.path.slice(PPROF.length)
    if (what === '') return exchange.send(indexText())
    if (what === CMDLINE) return exchange.send(process.argv.join('\0'))
    const profile = Object.hasOwn(PROFILES, what) ? PROFILES[what] : undefined
    if (profile === undefined) {
      const body = `${what} does not exist in Node. Available profiles:\n\n${indexText()}`
      return exchange.send(body, { status: '404 Not Found' })
    }
    const seconds = parseSeconds(exchange.query, profile.defaultSec)
    if (seconds === null) {
      const body = `seconds must be a whole number, ${SECONDS_MIN} to ${SECONDS_MAX}\n`
      return exchange.send(body, { status: '400 Bad Request' })
    }
    await this.run(exchange, { what, profile, seconds })
  }

  private async run(
    exchange: Exchange,
    { what, profile, seconds }: { what: string; profile: Profile; seconds: number },
  ): Promise<void> {
    if (this.running !== null) return exchange.send(this.busyText(), { status: '409 Conflict' })
    this.running = { what, seconds, startedMs: performance.now() }
    try {
      const { signal } = exchange
      await profile.run(exchange, { threads: this.threads, ms: seconds * 1_000, signal })
    } catch (error) {
      const body = `no ${what}: ${(error as Error).message}\n`
      exchange.send(body, { status: '500 Internal Server Error' })
    } finally {
      this.running = null
    }
  }

  private busyText(): string {
    const { what, seconds, startedMs } = this.running!
    const leftSec = Math.max(1, Math.ceil(seconds - (performance.now() - startedMs) / 1_000))
    return `${PPROF}${what}?seconds=${seconds} is running; only one profile runs at a time. Try again in ${leftSec} s.\n`
  }
}

async function sendMerged(exchange: Exchange, kind: 'cpu' | 'heap', options: InspectOptions): Promise<void> {
  const inspection = await inspect(kind, options)
  if (inspection === null) return
  const { found, missing } = inspection
  if (found.size === 0) throw new Error(`no thread has responded (${missing.join('; ')})`)
  const comments = missing.map((each) => `missing: ${each}`)
  const bytes = await promisify(gzip)(mergeProfiles(found, comments))
  exchange.send(bytes, fileHead('application/octet-stream', `${kind}.pb.gz`))
}

function fileHead(type: string, name: string) {
  return { type, headers: { 'Content-Disposition': `attachment; filename="${name}"` } }
}

function parseSeconds(query: URLSearchParams, defaultSec: number): number | null {
  const text = query.get('seconds')
  if (text === null) return defaultSec
  const seconds = /^\d+$/.test(text) ? Number(text) : Number.NaN
  return seconds >= SECONDS_MIN && seconds <= SECONDS_MAX ? seconds : null
}

function indexText(): string {
  const lines = Object.entries(PROFILES).map(([name, { help, defaultSec }]) => {
    return `${PPROF}${name}?seconds=${defaultSec}: ${help}\n`
  })
  return [`${PPROF}${CMDLINE}: the command that runs\n`, ...lines].join('')
}
