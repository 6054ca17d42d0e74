/**
 * A source of rules by xDS, ended with its test.
 *
 *     const client = follow(server.target, { CONFIG_GRPC_XDS_NODE_ID: 'n' })
 *     await client.rules()        // the drawing of the next rules that came into force
 *     client.lines, client.stats  // what it logged, what it counted
 */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'
import { Trie } from '../../../engine/match/trie.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { Totals } from '../../../engine/stats/totals.ts'
import { XdsRulesSource } from '../../../transports/xds/source.ts'
import { Queue } from '../../helpers/queue.ts'

/** Waits of some milliseconds, so that tests of connecting anew take no longer. */
const QUICK = { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '20ms', XDS_CLIENT_BACKOFF_MAX_INTERVAL: '100ms' }

export function sourceOf(target: string, env: Record<string, string> = {}) {
  const { settings } = parseSettings({
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: target,
    ...QUICK,
    ...env,
  })
  const lines: string[] = []
  const loads = new Queue<string>()
  const totals = new Totals()
  const source = new XdsRulesSource({
    settings,
    totals,
    log: (level, message) => lines.push(`${level} ${message}`),
    onRules: (rules) => loads.add(String(new Trie(rules))),
  })
  onTestFinished(() => source.close())
  return {
    source,
    lines,
    rules: () => loads.next(),
    errorLines: () => lines.filter((line) => line.startsWith('error ')),
    stats: () => Object.fromEntries(totals.sorted()),
  }
}

/** The same, started. `hasLoaded` resolves when a start would go on. */
export function follow(target: string, env: Record<string, string> = {}) {
  const client = sourceOf(target, env)
  return { ...client, hasLoaded: client.source.start() }
}

/** Accepts connections, reads, and never says a word. */
export async function startSilentServer() {
  const server = createServer((socket) => socket.resume())
  const accepted = once(server, 'connection').then(([socket]) => socket as Socket)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  onTestFinished(() => {
    server.close()
  })
  return { target: `127.0.0.1:${(server.address() as AddressInfo).port}`, accepted }
}
