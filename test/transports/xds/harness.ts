/**
 * An xDS source of rules, closed after its test.
 *
 *     const client = follow(server.target, { CONFIG_GRPC_XDS_NODE_ID: 'n' })
 *     await client.rules()        // the next rules that took effect, as text
 *     client.lines, client.stats  // log lines, statistics
 *     client.state                // what health reports: the current failure, a disconnected server
 */
import { once } from 'node:events'
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { expect, onTestFinished } from 'vitest'
import type { RulesSourceOptions } from '../../../engine/config/rules-loader.ts'
import { Trie } from '../../../engine/match/trie.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { Totals } from '../../../engine/stats/totals.ts'
import { XdsRulesSource } from '../../../transports/xds/source.ts'
import { Queue } from '../../helpers/queue.ts'
import { limit, startXdsServer } from '../../helpers/xds-server.ts'

/** Short waits before reconnecting. */
const QUICK = { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '20ms', XDS_CLIENT_BACKOFF_MAX_INTERVAL: '100ms' }

export function createSource(target: string, env: Record<string, string> = {}, steadyMs?: number) {
  const { settings } = parseSettings({
    CONFIG_TYPE: 'GRPC_XDS_SOTW',
    CONFIG_GRPC_XDS_SERVER_URL: target,
    ...QUICK,
    ...env,
  })
  const lines: string[] = []
  const loads = new Queue<string>()
  const totals = new Totals()
  const state: { failure: string | null; isAway: boolean } = { failure: null, isAway: false }
  const options: RulesSourceOptions = {
    settings,
    totals,
    log: (level, message) => lines.push(`${level} ${message}`),
    onRules(rules) {
      state.failure = null
      loads.add(String(new Trie(rules)))
    },
    onRefused(message) {
      state.failure = message
    },
    onRecovered() {
      state.failure = null
    },
    onDisconnected(since) {
      state.isAway = since !== null
    },
  }
  const source = new XdsRulesSource(options, steadyMs)
  onTestFinished(() => source.close())
  return {
    source,
    lines,
    state,
    rules: () => loads.next(),
    errorLines: () => lines.filter((line) => line.startsWith('error ')),
    stats: () => Object.fromEntries(totals.counters.filter(([, value]) => value !== 0)),
    gauges: () => Object.fromEntries(totals.gauges),
  }
}

/** The same, started. `hasLoaded` resolves when a start would continue. */
export function follow(target: string, env: Record<string, string> = {}, steadyMs?: number) {
  const client = createSource(target, env, steadyMs)
  return { ...client, hasLoaded: client.source.start() }
}

export const SHOP = 'shop\n  user                  5/YEAR'

/** A server with a client that has loaded version 1 and acknowledged it. */
export async function loaded(env: Record<string, string> = {}, steadyMs?: number) {
  const server = await startXdsServer()
  const client = follow(server.target, env, steadyMs)
  await server.request()
  server.send({ version: '1', resources: [limit('shop', 'user', 5)] })
  expect(await client.rules()).toBe(SHOP)
  await server.request()
  return { server, client }
}

/** Accepts connections, reads, and sends nothing. */
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
