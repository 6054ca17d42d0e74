/** Which frontend serves; a start loads no module that it does not use. */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { startService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const RULES = { 'shop.yaml': 'domain: shop\n' }
const PRELOADED = new URL('../helpers/loaded-modules.mjs', import.meta.url)

const loadsByEnv = new Map<string, Promise<string[]>>() // one start for all cases with the same settings

/** Paths of the modules of all threads of a service that has served a call. */
function listModules(env: Record<string, string>): Promise<string[]> {
  const key = JSON.stringify(env)
  const known = loadsByEnv.get(key) ?? startAndListModules(env)
  loadsByEnv.set(key, known)
  return known
}

async function startAndListModules(env: Record<string, string>): Promise<string[]> {
  const file = join(makeTemporaryFolder(), 'modules')
  const preloading = { NODE_OPTIONS: `--import=${PRELOADED.href}`, SLUICE_LOADED_FILE: file }
  const service = await startService({ rules: RULES, env: { ...preloading, ...env } })
  const client = new GrpcClient(service.address('gRPC'))
  expect((await client.ask(question('shop', { user: 'alice' }))).overallCode).toBe(1)
  client.close()
  return readFileSync(file, 'utf8').split('\n')
}

const DEFAULT = '/transports/grpc/http2/server.'
const LIBRARY = '/node_modules/@grpc/grpc-js/'

// biome-ignore format: the columns are the specification
const cases: [name: string, env: Record<string, string>, loaded: string[], notLoaded: string[]][] = [
  ['10: the default frontend',           { GRPC_FRONTEND: '' }, [DEFAULT, '/transports/worker.', '/protobufjs/'], [LIBRARY]],
  ['10: GRPC_FRONTEND=http2',            { GRPC_FRONTEND: 'http2' }, [DEFAULT], [LIBRARY]],
  ['10: GRPC_FRONTEND=grpc-js',          { GRPC_FRONTEND: 'grpc-js' }, [LIBRARY], [DEFAULT]],
  ['with the memory store, without TLS', { GRPC_FRONTEND: '' }, ['/stores/memory/'],
    ['/node_modules/ioredis/', '/stores/redis/', '/stores/memcached/', '/grpc/tls']],
  ['11.3: without tracing',              { GRPC_FRONTEND: '' }, [], ['/node_modules/@opentelemetry/', '/transports/tracing/']],
  ['11.3: with tracing over http',       { TRACING_ENABLED: 'true' }, ['/exporter-trace-otlp-http/'], ['/exporter-trace-otlp-grpc/', LIBRARY]],
]
for (const [name, env, loaded, notLoaded] of cases) {
  test(`${name}: no other module is loaded`, async () => {
    const modules = await listModules(env)
    for (const part of loaded) expect(modules.filter((path) => path.includes(part))).not.toEqual([])
    for (const part of notLoaded) expect(modules.filter((path) => path.includes(part))).toEqual([])
  })
}
