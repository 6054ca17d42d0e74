/**
 * The whole service behind TLS: starts, calls, mTLS, certificates renewed while calls run.
 */

import { once } from 'node:events'
import { cpSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { type ConnectionOptions, connect } from 'node:tls'
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest'
import { type Certificates, makeCertificates, type Pair } from '../helpers/certificates.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'

const RULES = {
  'shop.yaml':
    'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 1000000 }\n',
}
const FRONTENDS = ['http2', 'grpc-js'] as const

let ours: Certificates
let renewed: Pair
let proxy: Pair
beforeAll(async () => {
  ours = await makeCertificates('DNS:localhost,IP:127.0.0.1')
  renewed = await ours.issue('renewed', { names: 'DNS:localhost,IP:127.0.0.1' })
  proxy = await ours.issue('proxy', { names: 'DNS:proxy.test' })
})
afterAll(() => ours.remove())

/** Settings for TLS with copies of the files, which the test may change. */
async function tlsEnv() {
  const files = await makeCertificates('DNS:unused')
  onTestFinished(() => files.remove())
  const [cert, key] = [join(files.folder, 'tls.crt'), join(files.folder, 'tls.key')]
  cpSync(ours.cert, cert)
  cpSync(ours.key, key)
  return {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: cert,
    GRPC_SERVER_TLS_KEY: key,
    LOG_LEVEL: 'info',
  }
}

function clientOf(service: RunningService, pair?: Pair): GrpcClient {
  const client = new GrpcClient(service.address('gRPC'), { ca: ours.ca, pair })
  onTestFinished(() => client.close())
  return client
}

/** The way tools do it that write a file and move it into place. */
function renew(env: Awaited<ReturnType<typeof tlsEnv>>): void {
  for (const [from, to] of [
    [renewed.cert, env.GRPC_SERVER_TLS_CERT],
    [renewed.key, env.GRPC_SERVER_TLS_KEY],
  ]) {
    cpSync(from, `${to}.new`)
    renameSync(`${to}.new`, to)
  }
}

const ask = async (client: GrpcClient) => (await client.ask(question('shop', { user: 'alice' }))).overallCode

/** The serial number of the certificate a new connection is shown. */
async function serial(service: RunningService, options: ConnectionOptions = {}): Promise<string> {
  const [host, port] = service.address('gRPC').split(':')
  const socket = connect({
    host,
    port: Number(port),
    rejectUnauthorized: false,
    ALPNProtocols: ['h2'],
    ...options,
  })
  await once(socket, 'secureConnect')
  const { serialNumber } = socket.getPeerCertificate()
  socket.destroy()
  return serialNumber
}

for (const frontend of FRONTENDS) {
  test(`5.7, ${frontend}: calls over TLS; plain text is refused; HTTP stays plain`, async () => {
    const service = await startService({ rules: RULES, env: { ...(await tlsEnv()), WORKERS: '2' }, frontend })
    expect(await ask(clientOf(service))).toBe(1)
    const plain = new GrpcClient(service.address('gRPC'))
    await expect(ask(plain)).rejects.toMatchObject({ code: 14 })
    plain.close()
    await service.logged('a gRPC connection was refused: a TLS handshake failed:')
    const body = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
    expect((await postJson(service, body)).status).toBe(200)
    expect((await service.stop()).code).toBe(0)
  })

  test(`5.7, ${frontend}: with a client CA and a name`, async () => {
    const env = { ...(await tlsEnv()), GRPC_CLIENT_TLS_CACERT: ours.ca, GRPC_CLIENT_TLS_SAN: 'proxy.test' }
    const service = await startService({ rules: RULES, env: { ...env, LOG_LEVEL: 'WARN' }, frontend })
    expect(await ask(clientOf(service, proxy))).toBe(1)
    await expect(ask(clientOf(service))).rejects.toMatchObject({ code: 14 })
    await service.logged('the client sent no certificate (from 127.0.0.1)')
    const other = await startService({
      rules: RULES,
      env: { ...env, GRPC_CLIENT_TLS_SAN: 'other.test' },
      frontend,
    })
    await expect(ask(clientOf(other, proxy))).rejects.toMatchObject({ code: 14 })
    await other.logged('error validating client: the certificate holds DNS:proxy.test, not other.test')
  })

  test(`5.7, ${frontend}: a renewed pair reaches every worker, and no call fails meanwhile`, async () => {
    const env = { ...(await tlsEnv()), WORKERS: '2' }
    const service = await startService({ rules: RULES, env, frontend })
    const clients = Array.from({ length: 4 }, () => clientOf(service))
    let isOver = false
    const calls = clients.map(async (client) => {
      let count = 0
      for (; !isOver; count++) expect(await ask(client)).toBe(1)
      return count
    })
    const before = await serial(service)
    renew(env)
    await service.logged('CertProvider reloaded cert from (')
    const seen = new Set<string>()
    for (let i = 0; i < 20; i++) seen.add(await serial(service)) // both workers, most likely
    expect(seen.size).toBe(1)
    expect(seen).not.toContain(before)
    isOver = true
    for (const count of await Promise.all(calls)) expect(count).toBeGreaterThan(10)
  })

  test(`5.7, ${frontend}: the successor of a worker that threw shows the renewed pair`, async () => {
    const env = await tlsEnv()
    const service = await startService({ rules: RULES, env, frontend })
    const before = await serial(service)
    renew(env)
    await service.logged('CertProvider reloaded cert from (')
    service.child.send({ crashWorker: 0 })
    await service.logged('worker 0 ended')
    let shown: string | null = null
    while (shown === null) shown = await serial(service).catch(() => null) // until it listens
    expect(shown).not.toBe(before)
  })

  test(`5.7, ${frontend}: over a unix socket`, async () => {
    const env = await tlsEnv()
    const path = join(env.GRPC_SERVER_TLS_CERT, '../rls.sock')
    await startService({ rules: RULES, env: { ...env, GRPC_UDS: path }, frontend })
    const client = new GrpcClient(`unix:${path}`, { ca: ours.ca })
    onTestFinished(() => client.close())
    expect(await ask(client)).toBe(1)
  })
}

test('8.1: a pair that cannot be used ends the start before it waits for Redis, with one line and exit code 2', async () => {
  const env = { ...(await tlsEnv()), LOG_LEVEL: 'WARN', REDIS_URL: '127.0.0.1:1' }
  const service = spawnService({
    rules: RULES,
    env: { ...env, GRPC_SERVER_TLS_KEY: `${env.GRPC_SERVER_TLS_CERT}x` },
  })
  const { code, log } = await service.exited
  expect(code).toBe(2)
  expect(log.trimEnd().split('\n')).toHaveLength(1)
  expect(log).toContain('GRPC_SERVER_TLS_KEY: failed to read file: ')
})

test('5.7: settings of TLS without TLS are a warning', async () => {
  const service = await startService({ rules: RULES, env: { GRPC_CLIENT_TLS_CACERT: ours.ca } })
  expect(service.log).toContain('GRPC_CLIENT_TLS_CACERT has no effect without GRPC_SERVER_USE_TLS=true')
})
