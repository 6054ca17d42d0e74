/**
 * Which frontend serves, and that a start loads nothing it does not use.
 */
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { startService } from '../helpers/service.ts'

const RULES = { 'shop.yaml': 'domain: shop\n' }
const PRELOADED = new URL('../helpers/loaded-modules.mjs', import.meta.url)

/** The modules of all threads of a service that has answered a call, as paths. */
async function loadedBy(env: Record<string, string>): Promise<string[]> {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-loaded-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const file = join(folder, 'modules')
  const preloading = { NODE_OPTIONS: `--import=${PRELOADED.href}`, SLUICE_LOADED_FILE: file }
  const service = await startService({ rules: RULES, env: { ...preloading, ...env } })
  const client = new GrpcClient(service.address('gRPC'))
  expect((await client.ask(question('shop', { user: 'alice' }))).overallCode).toBe(1)
  client.close()
  return readFileSync(file, 'utf8').split('\n')
}

const OURS = '/transports/grpc/http2/server.ts'
const LIBRARY = '/node_modules/@grpc/grpc-js/'

// biome-ignore format: the columns are the specification
const cases: [what: string, env: Record<string, string>, loads: string[], loadsNot: string[]][] = [
  ['10: by default, our own frontend', { GRPC_FRONTEND: '' }, [OURS, '/transports/worker.ts', '/protobufjs/'], [LIBRARY]],
  ['10: GRPC_FRONTEND=http2',          { GRPC_FRONTEND: 'http2' }, [OURS], [LIBRARY]],
  ['10: GRPC_FRONTEND=grpc-js',        { GRPC_FRONTEND: 'grpc-js' }, [LIBRARY], [OURS]],
  ['with the memory store, without TLS', {}, [], ['/node_modules/ioredis/', '/counters/redis', '/memcache', '/grpc/tls']],
  ['11.3: without tracing',            {}, [], ['/node_modules/@opentelemetry/', '/transports/tracing/']],
  ['11.3: with tracing over http',     { TRACING_ENABLED: 'true' }, ['/exporter-trace-otlp-http/'], ['/exporter-trace-otlp-grpc/', LIBRARY]],
]
for (const [what, env, loads, loadsNot] of cases) {
  test(`${what}: nothing else is loaded`, async () => {
    const modules = await loadedBy(env)
    for (const part of loads) expect(modules.filter((path) => path.includes(part))).not.toEqual([])
    for (const part of loadsNot) expect(modules.filter((path) => path.includes(part))).toEqual([])
  })
}
