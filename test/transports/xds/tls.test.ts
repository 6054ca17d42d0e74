/**
 * TLS to the management server (spec 8.6) with real certificates, and what stops a start.
 */
import { once } from 'node:events'
import { cpSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { createEndpoint } from '../../../transports/xds/endpoint.ts'
import { XdsStream } from '../../../transports/xds/stream.ts'
import { type Certificates, makeCertificates, type Pair } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { limit, startXdsServer } from '../../helpers/xds-server.ts'
import { createSource, follow, startSilentServer } from './harness.ts'

vi.mock('../../../engine/runtime/job-thread.ts', () => import('./shared-job-thread.ts'))

let ours: Certificates // of the server: 127.0.0.1
let others: Certificates
let named: Pair // of the same authority: xds.test and 192.0.2.7
let client: Pair
beforeAll(async () => {
  ours = await makeCertificates('IP:127.0.0.1')
  named = await ours.issue('named', { names: 'DNS:xds.test,IP:192.0.2.7' })
  client = await ours.issue('client', { usage: 'clientAuth' })
  others = await makeCertificates('IP:127.0.0.1')
})
afterAll(async () => {
  await ours.remove()
  await others.remove()
})

const SAN = 'CONFIG_GRPC_XDS_SERVER_TLS_SAN'
const CA = 'CONFIG_GRPC_XDS_SERVER_TLS_CACERT'
const CERT = 'CONFIG_GRPC_XDS_CLIENT_TLS_CERT'
const KEY = 'CONFIG_GRPC_XDS_CLIENT_TLS_KEY'
const useTls = (more: Record<string, string> = {}) => ({
  CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
  [CA]: ours.ca,
  ...more,
})

async function connects(tls: Pair & { clientCa?: string }, env: Record<string, string>) {
  const server = await startXdsServer({ tls })
  const { rules } = follow(server.target, env)
  await server.request()
  server.send({ version: '1', resources: [limit('shop', 'user', 5)] })
  expect(await rules()).toContain('user')
}

/** What the operator reads. */
async function refusal(tls: Pair & { clientCa?: string }, env: Record<string, string>): Promise<string> {
  const server = await startXdsServer({ tls })
  const { lines } = follow(server.target, env)
  await eventually(() => expect(lines.filter((line) => line.startsWith('error ')).length).toBeGreaterThan(0))
  expect(server.headers).toEqual([])
  return lines.find((line) => line.startsWith('error '))!
}

describe('8.6 TLS', () => {
  test('with the CA of the server', () => connects(ours, useTls()))

  test('an unknown CA', async () => {
    expect(await refusal(ours, useTls({ [CA]: others.ca }))).toContain('unable to verify')
    expect(await refusal(ours, useTls({ [CA]: '' }))).toContain('unable to verify')
  })

  test('a server without TLS', async () => {
    const server = await startXdsServer()
    const { errorLines } = follow(server.target, useTls())
    await eventually(() => expect(errorLines()).not.toEqual([]))
    expect(errorLines()[0]).toContain('UNAVAILABLE')
  })

  test('the name in the certificate: the host, or the given one', async () => {
    expect(await refusal(named, useTls())).toContain("IP: 127.0.0.1 is not in the cert's list")
    await connects(named, useTls({ [SAN]: 'xds.test' }))
    await connects(named, useTls({ [SAN]: '192.0.2.7' }))
    expect(await refusal(named, useTls({ [SAN]: 'other.test' }))).toContain(
      "Host: other.test. is not in the cert's",
    )
    expect(await refusal(named, useTls({ [SAN]: '192.0.2.8' }))).toContain(
      "IP: 192.0.2.8 is not in the cert's list",
    )
  })

  test('a given name is also the :authority, as in envoyproxy/ratelimit', async () => {
    const server = await startXdsServer({ tls: named })
    follow(server.target, useTls({ [SAN]: 'xds.test' }))
    await server.request()
    const plain = await startXdsServer()
    follow(plain.target, { [SAN]: 'xds.test' }) // of no meaning without TLS
    await plain.request()
    expect([...server.authorities, ...plain.authorities]).toEqual(['xds.test', plain.target])
  })

  test('a client certificate, if both files are set', async () => {
    const tls = { ...named, clientCa: ours.ca }
    const env = useTls({ [SAN]: 'xds.test' })
    await connects(tls, { ...env, [CERT]: client.cert, [KEY]: client.key })
    expect(await refusal(tls, { ...env, [CERT]: client.cert })).toContain('UNAVAILABLE')
  })

  test('files are read again for each connection; unusable ones change nothing', async () => {
    const folder = await makeCertificates('DNS:unused')
    onTestFinished(() => folder.remove())
    const ca = join(folder.folder, 'renewed-ca.pem')
    cpSync(others.ca, ca)
    const server = await startXdsServer({ tls: ours })
    const source = follow(server.target, useTls({ [CA]: ca }))
    await eventually(() => expect(source.errorLines()).not.toEqual([]))
    cpSync(ours.ca, ca)
    await server.request()
    rmSync(ca)
    server.endStreams()
    await server.request()
    expect(source.lines.filter((line) => line.startsWith('warning '))[0]).toContain(
      `${CA}: failed to read file: ${ca}`,
    )
  })
})

describe('8.1 TLS files that stop a start', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // setting, its file -> text
    [CA,   () => '/nowhere/ca.pem',            'failed to read file: /nowhere/ca.pem: ENOENT'],
    [CA,   () => ours.key,                     'failed to load the provided TLS CA certificate: '],
    [CERT, () => '/nowhere/tls.crt',           'failed to read file: /nowhere/tls.crt: ENOENT'],
    [CERT, () => ours.ca,                      'failed to load TLS key pair ('],
  ] as const
  for (const [variable, file, text] of cases) {
    test(`${variable}: ${text}`, () => {
      let thrown: ConfigurationError | null = null
      try {
        createSource('localhost:1', useTls({ [CERT]: client.cert, [KEY]: client.key, [variable]: file() }))
      } catch (error) {
        thrown = error as ConfigurationError
      }
      expect(thrown?.message).toContain(variable)
      expect(thrown?.message).toContain(text)
      expect(thrown?.exitCode).toBe(2)
    })
  }

  test('without TLS they are not read', () => {
    createSource('localhost:1', { [CA]: '/nowhere/ca.pem' })
  })
})

test('8.6: a server that accepts and does not respond is given up, and its connection closed', async () => {
  const silent = await startSilentServer()
  const { settings } = parseSettings({ CONFIG_GRPC_XDS_SERVER_URL: silent.target, ...useTls() })
  const endpoint = createEndpoint(settings, () => {})
  const stream = new XdsStream({ endpoint, onConnect: () => {}, connectMsMax: 500 })
  const rejected = expect(stream.responses().next()).rejects.toThrow('no connection in time')
  const closed = once(await silent.accepted, 'close')
  await rejected
  expect(stream.isConnected).toBe(false)
  stream.close()
  await closed
})
