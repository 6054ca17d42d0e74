/**
 * Two instances on one Redis behind a real Envoy are restarted one after the other, and no request fails.
 *
 *     clients ══► Envoy ─┬─► one    SIGTERM ─ NOT_SERVING ─ DRAIN_DELAY ─ GOAWAY ─ exit 0 ─ started ─ healthy ─┐
 *                        └─► other  SIGTERM … ◄────────────────────────────────────────────────────────────────┘
 *
 * The cluster is the one of examples/envoy/README.md, and `failure_mode_deny` makes a failed check a failed request. Neither
 * clients nor Envoy retry, so Redis counts exactly the responses.
 */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { parse, stringify } from 'yaml'
import { type Envoy, exampleConfig, startEnvoy } from '../helpers/envoy.ts'
import { eventually } from '../helpers/eventually.ts'
import { freePort } from '../helpers/ports.ts'
import { startRedis } from '../helpers/redis.ts'
import { type RunningService, startService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'

const README = readFileSync(new URL('../../examples/envoy/README.md', import.meta.url), 'utf8')
const ROUNDS = size({ small: 1, full: 10 })
const INTERVAL = '0.2s' // of Envoy's health checks
const DRAIN_DELAY = '1500ms' // Envoy must see NOT_SERVING within it, also on a busy machine
const CONNECTION_AGE = '20ms'
const CONNECTIONS = size({ small: 30, full: 300 }) // that got a GOAWAY; some of them with a call in flight
const CLIENTS = 8
const PAUSE_MS = 5 // of a client between two requests, so that a start finds a free core

const RULES = `
domain: envoy
descriptors:
  - key: generic_key
    value: slow
    rate_limit: { unit: year, requests_per_unit: 1000000000 }
`

test(`8.3, 12#36: a rolling restart behind Envoy, rounds under load: ${ROUNDS}, no failed check`, async () => {
  const redis = await startRedis()
  onTestFinished(() => redis.stop())
  const ports = [await freePort(), await freePort()]
  const start = (port: number) => {
    const env = { REDIS_URL: redis.address, GRPC_PORT: String(port), DRAIN_DELAY, WORKERS: '2' }
    return startService({ rules: { 'envoy.yaml': RULES }, env })
  }
  const instances = await Promise.all(ports.map(start))
  const envoy = await startEnvoy(configFor(ports))
  const load = new Load(`${envoy.url}/slow`)
  await Promise.all(ports.map((port, i) => waitUntilInUse(envoy, port, instances[i])))

  for (let turn = 0; turn < 2 * ROUNDS; turn++) {
    const i = turn % 2
    expect(await instances[i].stop()).toMatchObject({ code: 0, signal: null })
    instances[i] = await start(ports[i])
    await waitUntilInUse(envoy, ports[i], instances[i])
  }

  const outcomes = await load.stop()
  expect(outcomes).toEqual({ 200: expect.any(Number) })
  expect(await getRateLimitStats(envoy)).toEqual({ ok: outcomes[200] })
  const counters = Object.values(await redis.contents())
  expect(counters.reduce((sum, { value }) => sum + Number(value), 0)).toBe(outcomes[200])
}, 120_000)

// In a rolling restart Envoy has left before the drain sends GOAWAY. Here it receives GOAWAY under load.
test('5.6: connections that reach their maximum age under the load of an Envoy: no failed check', async () => {
  const env = { GRPC_MAX_CONNECTION_AGE: CONNECTION_AGE }
  const service = await startService({ rules: { 'envoy.yaml': RULES }, env, frontend: 'http2' })
  const port = Number(service.address('gRPC').split(':')[1])
  const envoy = await startEnvoy(configFor([port, port]))
  const load = new Load(`${envoy.url}/slow`)
  const check = async () => {
    const text = await envoy.admin('/stats?filter=^cluster\\.sluice\\.upstream_cx_close_notify$')
    expect(Number(text.split(': ')[1])).toBeGreaterThanOrEqual(CONNECTIONS)
  }
  await eventually(check)
  const outcomes = await load.stop()
  expect(outcomes).toEqual({ 200: expect.any(Number) })
  expect(await getRateLimitStats(envoy)).toEqual({ ok: outcomes[200] })
})

/** The example, with the README's cluster. */
function configFor(ports: number[]): string {
  const block = /```yaml\n([\s\S]+?)```/.exec(README)?.[1] ?? ''
  const cluster = block
    .replace('port_value: 8081', `port_value: ${ports[0]}`)
    .replace('port_value: 8091', `port_value: ${ports[1]}`)
    .replaceAll('interval: 1s', `interval: ${INTERVAL}`)
  const text = exampleConfig()
    .replace('failure_mode_deny: false', 'failure_mode_deny: true')
    .replace('timeout: 0.25s', 'timeout: 5s') // a busy machine must not cause a failure
  const config = parse(text)
  const { clusters } = config.static_resources
  clusters[clusters.findIndex(({ name }: { name: string }) => name === 'sluice')] = parse(cluster)
  return stringify(config)
}

/** Resolves when Envoy considers the instance healthy and sends it requests. */
async function waitUntilInUse(envoy: Envoy, port: number, instance: RunningService): Promise<void> {
  const check = async () => {
    expect(await envoy.admin('/clusters')).toContain(`127.0.0.1:${port}::health_flags::healthy\n`)
    const stats = await instance.stats()
    expect(stats['ratelimit_server.ShouldRateLimit.total_requests']).toBeGreaterThan(0)
  }
  await eventually(check)
}

/** The counters of Envoy's filter that are not 0, of ok, over_limit, error, failure_mode_allowed. */
async function getRateLimitStats(envoy: Envoy): Promise<Record<string, number>> {
  const text = await envoy.admin('/stats?filter=^cluster\\.service\\.ratelimit\\.')
  const lines = text.trim().split('\n')
  const pairs = lines.map((line) => /([a-z_]+): (\d+)$/.exec(line)!)
  return Object.fromEntries(
    pairs.map(([, name, value]) => [name, Number(value)]).filter(([, value]) => value),
  )
}

/** Clients that send one request after the other until `stop`. */
class Load {
  private readonly outcomes: Record<string, number> = {} // by status, or by cause of the failure
  private readonly ended: Promise<unknown>
  private isStopping = false

  constructor(url: string) {
    this.ended = Promise.all(Array.from({ length: CLIENTS }, () => this.run(url)))
  }

  async stop(): Promise<Record<string, number>> {
    this.isStopping = true
    await this.ended
    return this.outcomes
  }

  private async run(url: string): Promise<void> {
    while (!this.isStopping) {
      const outcome = await fetchOutcome(url)
      this.outcomes[outcome] = (this.outcomes[outcome] ?? 0) + 1
      await sleep(PAUSE_MS)
    }
  }
}

async function fetchOutcome(url: string): Promise<string> {
  try {
    const response = await fetch(url)
    await response.arrayBuffer()
    return String(response.status)
  } catch (error) {
    return String((error as Error).cause ?? error)
  }
}
