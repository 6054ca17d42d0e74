/**
 * The whole service behind TLS: starts, calls, mTLS, certificates renewed while calls run.
 */

import { once } from 'node:events'
import { cpSync, renameSync } from 'node:fs'
import { join } from 'node:path'
import { type ConnectionOptions, connect } from 'node:tls'
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest'
import { type Certificates, makeCertificates, type Pair } from '../helpers/certificates.ts'
import { GrpcClient, question } from '../helpers/grpc.ts'
import { postJson, type RunningService, spawnService, startService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const RULES = {
  'shop.yaml':
    'domain: shop\ndescriptors:\n  - key: user\n    rate_limit: { unit: year, requests_per_unit: 1000000 }\n',
}
const CALLS_MIN = 10 // of each client while a certificate is renewed

let certificates: Certificates
let renewed: Pair
let proxy: Pair
beforeAll(async () => {
  certificates = await makeCertificates('DNS:localhost,IP:127.0.0.1')
  renewed = await certificates.issue('renewed', { names: 'DNS:localhost,IP:127.0.0.1' })
  proxy = await certificates.issue('proxy', { names: 'DNS:proxy.test' })
})
afterAll(() => certificates.remove())

/** Settings for TLS with copies of the files, which the test may change. */
function makeTlsEnv() {
  const folder = makeTemporaryFolder()
  const [cert, key] = [join(folder, 'tls.crt'), join(folder, 'tls.key')]
  cpSync(certificates.cert, cert)
  cpSync(certificates.key, key)
  return {
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: cert,
    GRPC_SERVER_TLS_KEY: key,
    LOG_LEVEL: 'info',
  }
}

function createClient(service: RunningService, pair?: Pair): GrpcClient {
  const client = new GrpcClient(service.address('gRPC'), { ca: certificates.ca, pair })
  onTestFinished(() => client.close())
  return client
}

/** Replaces both files, as tools do that write a file and move it into place. */
function renew(env: ReturnType<typeof makeTlsEnv>): void {
  for (const [from, to] of [
    [renewed.cert, env.GRPC_SERVER_TLS_CERT],
    [renewed.key, env.GRPC_SERVER_TLS_KEY],
  ]) {
    cpSync(from, `${to}.new`)
    renameSync(`${to}.new`, to)
  }
}

const call = async (client: GrpcClient) => (await client.ask(question('shop', { user: 'alice' }))).overallCode

/** The serial number of the certificate that a new connection receives. */
async function getSerial(service: RunningService, options: ConnectionOptions = {}): Promise<string> {
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

describe.each(['http2', 'grpc-js'] as const)('5.7, %s', (frontend) => {
  describe('two workers', () => {
    let env: ReturnType<typeof makeTlsEnv>
    let service: RunningService
    let firstSerial: string

    beforeAll(async () => {
      env = makeTlsEnv()
      service = spawnService({ rules: RULES, env: { ...env, WORKERS: '2' }, frontend })
      await service.logged("Listening for HTTP on '")
      firstSerial = await getSerial(service)
    })
    afterAll(() => service?.stop('SIGKILL').then(() => {}))

    test('calls over TLS; plain text is refused; HTTP stays plain', async () => {
      expect(await call(createClient(service))).toBe(1)
      const plain = new GrpcClient(service.address('gRPC'))
      await expect(call(plain)).rejects.toMatchObject({ code: 14 })
      plain.close()
      await service.logged('a gRPC connection was refused: a TLS handshake failed:')
      const body = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }
      expect((await postJson(service, body)).status).toBe(200)
    })

    test('a renewed pair reaches every worker, and no call fails meanwhile', async () => {
      const clients = Array.from({ length: 4 }, () => createClient(service))
      let isOver = false
      const calls = clients.map(async (client) => {
        for (let count = 0; !isOver || count < CALLS_MIN; count++) expect(await call(client)).toBe(1)
      })
      renew(env)
      await service.logged('CertProvider reloaded cert from (')
      const serials = new Set<string>()
      for (let i = 0; i < 20; i++) serials.add(await getSerial(service)) // both workers, most likely
      expect(serials.size).toBe(1)
      expect(serials).not.toContain(firstSerial)
      isOver = true
      await Promise.all(calls)
    })

    test('the successor of a worker that threw has the renewed pair', async () => {
      for (const index of [0, 1]) {
        service.child.send({ crashWorker: index })
        await service.logged(`worker ${index} ended`)
        let serial: string | null = null
        while (serial === null) serial = await getSerial(service).catch(() => null) // until it listens
        expect(serial).not.toBe(firstSerial)
      }
      expect((await service.stop()).code).toBe(0)
    })
  })

  test('with a client CA and a name', async () => {
    const env = {
      ...makeTlsEnv(),
      ...{ GRPC_CLIENT_TLS_CACERT: certificates.ca, GRPC_CLIENT_TLS_SAN: 'proxy.test' },
      LOG_LEVEL: 'WARN',
    }
    // One line a second is logged about refused connections, so each refusal has a service of its own.
    const [service, mismatching] = await Promise.all([
      startService({ rules: RULES, env, frontend }),
      startService({ rules: RULES, env: { ...env, GRPC_CLIENT_TLS_SAN: 'other.test' }, frontend }),
    ])
    expect(await call(createClient(service, proxy))).toBe(1)
    await expect(call(createClient(service))).rejects.toMatchObject({ code: 14 })
    await service.logged('the client sent no certificate (from 127.0.0.1)')
    await expect(call(createClient(mismatching, proxy))).rejects.toMatchObject({ code: 14 })
    await mismatching.logged('error validating client: the certificate holds DNS:proxy.test, not other.test')
  })

  test('over a unix socket', async () => {
    const env = makeTlsEnv()
    const path = join(env.GRPC_SERVER_TLS_CERT, '../rls.sock')
    await startService({ rules: RULES, env: { ...env, GRPC_UDS: path }, frontend })
    const client = new GrpcClient(`unix:${path}`, { ca: certificates.ca })
    onTestFinished(() => client.close())
    expect(await call(client)).toBe(1)
  })
})

test('8.1: a pair that cannot be used ends the start before it waits for Redis, with one line and exit code 2', async () => {
  const env = { ...makeTlsEnv(), LOG_LEVEL: 'WARN', REDIS_URL: '127.0.0.1:1' }
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
  const service = await startService({ rules: RULES, env: { GRPC_CLIENT_TLS_CACERT: certificates.ca } })
  expect(service.log).toContain('GRPC_CLIENT_TLS_CACERT has no effect without GRPC_SERVER_USE_TLS=true')
})
