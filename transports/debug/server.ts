/**
 * The operators' port (spec 6.5): what is loaded and what was counted, in plain text. Runs in main.
 *
 *     /rlconfig   one line per rule: shop.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
 *     /stats      one line per counter, summed over all workers: ratelimit.service.rate_limit.shop.user.total_hits: 17
 *     others      the index
 */
import { Trie } from '../../engine/match/trie.ts'
import type { Rule, RulesImage } from '../../engine/rules.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'
import { type HttpResponse, openUws, type UwsPort } from '../uws.ts'

const INDEX = `/rlconfig: print out the currently loaded configuration for debugging
/stats: print out stats
`

const CHUNK_CHARS = 64 * 1024

export interface DebugOptions {
  host: string
  port: number // 0 = any free one
  rules: () => RulesImage | null
  stats: () => Promise<[name: string, value: number][]>
}

/** Listens at once, or throws an Error. Must be closed before its thread ends. */
export class DebugServer {
  private readonly uwsPort: UwsPort

  constructor({ host, port, rules, stats }: DebugOptions) {
    const opened = openUws(host, port, (app) => {
      app.any('/rlconfig', (res) => sendText(res, rulesText(rules())))
      app.any('/stats', (res) => void sendStats(res, stats))
      app.any('/*', (res) => sendText(res, INDEX))
    })
    if (opened === null)
      throw new Error(`cannot listen on ${host}:${port}: in use, or no address of this machine`)
    this.uwsPort = opened
  }

  get port(): number {
    return this.uwsPort.port
  }

  close(): void {
    this.uwsPort.close()
  }
}

async function sendStats(res: HttpResponse, stats: DebugOptions['stats']): Promise<void> {
  let isGone = false
  res.onAborted(() => {
    isGone = true
  })
  const lines = await stats()
  if (!isGone) res.cork(() => writeLines(res, lines))
}

/** In chunks: a million names would not fit into one string. */
function writeLines(res: HttpResponse, lines: [name: string, value: number][]): void {
  res.writeHeader('Content-Type', 'text/plain; charset=utf-8')
  let chunk = ''
  for (const [name, value] of lines) {
    chunk += `${name}: ${value}\n`
    if (chunk.length < CHUNK_CHARS) continue
    res.write(chunk)
    chunk = ''
  }
  res.end(chunk)
}

function sendText(res: HttpResponse, text: string): void {
  res.writeHeader('Content-Type', 'text/plain; charset=utf-8').end(text)
}

function rulesText(image: RulesImage | null): string {
  if (image === null) return ''
  let text = ''
  for (const rule of new Trie(image).rules()) text += ruleLine(rule)
  return text
}

function ruleLine({ path, limit, isShadow, isQuota }: Rule): string {
  const unit = UNIT_NAMES[limit.unit]
  const modes = `shadow_mode: ${isShadow}, quota_mode: ${isQuota}`
  return `${path}: unit=${unit} requests_per_unit=${limit.requestsPerUnit}, ${modes}\n`
}
