/**
 * The whole service with rules from a management server (spec 8.6): real sockets on both sides.
 */
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { makeCertificates } from '../helpers/certificates.ts'
import { freePort } from '../helpers/ports.ts'
import {
  postJson,
  type RunningService,
  type ServiceOptions,
  spawnService,
  startService,
} from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'
import { config, limit, startXdsServer, type XdsServer } from '../helpers/xds-server.ts'
import { startSilentServer } from '../transports/xds/harness.ts'

const WAIT = { timeout: 20_000 }
const LISTENING = "Listening for HTTP on '"
const BAD = config('bad.conf', 'shop', [{ key: 'user', rate_limit: { unit: 99 } }])

const xdsEnv = (target: string, more: Record<string, string> = {}) => ({
  CONFIG_TYPE: 'GRPC_XDS_SOTW',
  CONFIG_GRPC_XDS_SERVER_URL: target,
  XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '50ms',
  XDS_CLIENT_BACKOFF_MAX_INTERVAL: '200ms',
  BACKEND_TYPE: 'memory',
  ...more,
})

/** Does not wait for its ports. Ends with the test. */
function spawn(options: ServiceOptions): RunningService {
  const service = spawnService(options)
  onTestFinished(async () => {
    await service.stop('SIGKILL')
  })
  return service
}

/** The limit of a call with one entry, or the HTTP status and the error. Each call is a hit, so limits here are in thousands. */
async function fetchLimit(service: RunningService, key: string): Promise<string> {
  const { status, text } = await postJson(service, {
    domain: 'shop',
    descriptors: [{ entries: [{ key, value: 'alice' }] }],
  })
  if (status !== 200) return `${status} ${text.trim()}`
  const [{ currentLimit }] = JSON.parse(text).statuses
  return currentLimit ? `${currentLimit.requestsPerUnit}` : 'no limit'
}

const expectLimit = (service: RunningService, key: string) =>
  expect.poll(() => fetchLimit(service, key), WAIT)

async function getHealth(service: RunningService): Promise<number> {
  return (await fetch(`${service.http}/healthcheck`)).status
}

async function getReport(service: RunningService): Promise<string> {
  return (await fetch(`${service.http}/healthcheck?verbose`)).text()
}

/** Responds to the first request with a limit for `user`, then waits for the ACK. */
async function sendFirstRules(server: XdsServer, requestsPerYear: number): Promise<void> {
  await server.request()
  server.send({ version: '1', resources: [limit('shop', 'user', requestsPerYear)] })
  expect(await server.request()).toMatchObject({ version_info: '1' })
}

test('8.6, 8.5: rules are loaded, changed, refused and removed, and outlive their server', async () => {
  const server = await startXdsServer()
  const env = xdsEnv(server.target, { WORKERS: '2', HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED: 'true' })
  const service = spawn({ env })
  await server.request()
  expect(service.log).not.toContain('Listening') // no port before the first load (8.1)
  server.send({ version: '1', resources: [limit('shop', 'user', 5_000)] })
  await server.request()
  await service.logged(LISTENING)
  await expectLimit(service, 'user').toBe('5000')

  server.send({ version: '2', resources: [limit('shop', 'user', 7_000)] })
  expect(await server.request()).toMatchObject({ version_info: '2', response_nonce: 'n2' })
  await expectLimit(service, 'user').toBe('7000')

  server.send({ version: '3', resources: [BAD] })
  const error = "bad.conf: invalid rate limit unit '99'"
  expect(await server.request()).toMatchObject({ version_info: '2', error_detail: { message: error } })
  await service.logged(`Error loading new configuration: ${error}`)
  expect(await fetchLimit(service, 'user')).toBe('7000')
  expect(await getHealth(service)).toBe(200)
  expect(await getReport(service)).toMatch(/^management server: connected$/m)

  server.stop()
  await service.logged('Failed to receive configuration from xDS Management Server:')
  await expect
    .poll(() => getReport(service), WAIT)
    .toMatch(/^management server: unreachable since .*Z; see the log for the cause$/m)
  expect(await fetchLimit(service, 'user')).toBe('7000')
  const again = await startXdsServer({ port: server.port })
  expect(await again.request()).toMatchObject({ version_info: '3', response_nonce: 'n3' })
  again.send({ version: '4' }) // valid, without a domain
  expect(await again.request()).toMatchObject({ version_info: '4', response_nonce: 'n4' })
  await expectLimit(service, 'user').toBe('no limit')
  expect(await getHealth(service)).toBe(500)

  const stats = await service.stats()
  expect(stats['ratelimit.service.config_load_success']).toBe(3)
  expect(stats['ratelimit.service.config_load_error']).toBe(1)
  expect((await service.stop()).code).toBe(0)
})

test('8.5, 8.6: a response that is too large is a failed load in every report, also after the rules in force are sent again', async () => {
  const server = await startXdsServer()
  const service = spawn({ env: xdsEnv(server.target, { XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: '10000' }) })
  await sendFirstRules(server, 5_000)
  await service.logged(LISTENING)
  expect(await getReport(service)).toContain('last load: ok')
  for (let i = 0; i < 2; i++) {
    server.send({ version: '2', resources: [limit('shop', 'x'.repeat(10_000), 7)] })
    await sendFirstRules(server, 5_000) // on a new stream
  }
  await expect.poll(() => getReport(service), WAIT).toMatch(/^last load: failed at /m)
  const configuration = await (await fetch(`${service.debug}/rlconfig`)).text()
  expect(configuration).toMatch(/^# the last load failed: RESOURCE_EXHAUSTED: .*\nshop\.user: unit=YEAR /)
  expect(await getHealth(service)).toBe(200)
  const stats = await service.stats()
  expect(stats['ratelimit.service.config_load_success']).toBe(1)
  expect(stats['ratelimit.service.config_load_error']).toBe(2)
  expect(stats['sluice.xds.connected']).toBe(1)
  expect(stats['sluice.xds.last_response_timestamp_seconds']).toBeGreaterThan(1_700_000_000)

  server.send({ version: '3', resources: [limit('shop', 'user', 7_000)] })
  await expectLimit(service, 'user').toBe('7000')
  await expect.poll(() => getReport(service), WAIT).toContain('last load: ok')
  expect((await service.stop()).code).toBe(0)
})

test('8.1#7: a bad first response opens the ports without rules; FORCE_START_WITHOUT_INITIAL_CONFIG does so at once', async () => {
  const server = await startXdsServer()
  const patient = spawn({ env: xdsEnv(server.target) })
  await server.request()
  server.send({ version: '1', resources: [BAD] })
  await patient.logged(LISTENING)
  expect(await fetchLimit(patient, 'user')).toBe('400 Bad Request') // as every call without rules
  await patient.stop('SIGKILL')

  const port = await freePort()
  const eager = await startService({
    env: xdsEnv(`127.0.0.1:${port}`, { FORCE_START_WITHOUT_INITIAL_CONFIG: 'true' }),
  })
  expect(await fetchLimit(eager, 'user')).toBe('400 Bad Request')
  await sendFirstRules(await startXdsServer({ port }), 5_000)
  await expectLimit(eager, 'user').toBe('5000')
  expect((await eager.stop()).code).toBe(0)
})

test('8.6: over TLS with a client certificate and a server name', async () => {
  const certificates = await makeCertificates('DNS:xds.test')
  onTestFinished(() => certificates.remove())
  const server = await startXdsServer({ tls: { ...certificates, clientCa: certificates.ca } })
  const service = spawn({
    env: xdsEnv(server.target, {
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_CACERT: certificates.ca,
      CONFIG_GRPC_XDS_SERVER_TLS_SAN: 'xds.test',
      CONFIG_GRPC_XDS_CLIENT_TLS_CERT: certificates.cert,
      CONFIG_GRPC_XDS_CLIENT_TLS_KEY: certificates.key,
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'Authorization:Bearer abc',
    }),
  })
  await sendFirstRules(server, 5_000)
  expect(server.headers[0].get('authorization')).toEqual(['Bearer abc'])
  await service.logged(LISTENING)
  await expectLimit(service, 'user').toBe('5000')
  expect((await service.stop()).code).toBe(0)
})

test('8.6, 11.1: over TLS to an IP address, without a warning of Node', async () => {
  const certificates = await makeCertificates('IP:127.0.0.1')
  onTestFinished(() => certificates.remove())
  const server = await startXdsServer({ tls: certificates })
  const service = spawn({
    env: xdsEnv(server.target, {
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_CACERT: certificates.ca,
    }),
  })
  await sendFirstRules(server, 5_000)
  await service.logged(LISTENING)
  expect(service.log).not.toContain('Warning') // Node warns that an address is not a server name
  expect((await service.stop()).code).toBe(0)
})

test('8.1: TLS files that cannot be used end the start with exit code 2', async () => {
  const { code, log } = await spawn({
    env: xdsEnv('127.0.0.1:1', {
      CONFIG_GRPC_XDS_SERVER_USE_TLS: 'true',
      CONFIG_GRPC_XDS_SERVER_TLS_CACERT: '/nowhere/ca.pem',
    }),
  }).exited
  expect(code).toBe(2)
  expect(log).toContain('CONFIG_GRPC_XDS_SERVER_TLS_CACERT: failed to read file: /nowhere/ca.pem: ENOENT')
})

test('8.3, 12#17: a signal ends a start that waits for a connection, for a retry, for the first rules', async () => {
  const silent = await startSilentServer()
  const server = await startXdsServer()
  const retrying = xdsEnv(`127.0.0.1:${await freePort()}`, { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '1h' })
  const stopAt = async (
    env: Record<string, string>,
    reach: (service: RunningService) => Promise<unknown>,
  ) => {
    const service = spawn({ env })
    await reach(service)
    return (await service.stop()).code
  }
  const codes = await Promise.all([
    stopAt(xdsEnv(silent.target), () => silent.accepted),
    stopAt(retrying, (service) => service.logged('ECONNREFUSED')),
    stopAt(xdsEnv(server.target), () => server.request()),
  ])
  expect(codes).toEqual([0, 0, 0])
})

test('8.6: the monitor alone loads its quotas from a management server, too', async () => {
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'catalogue.yaml'), 'version: 1\nsites: []\n')
  const server = await startXdsServer()
  const monitor = spawn({
    args: ['monitor'],
    env: xdsEnv(server.target, {
      MONITOR_ADDR: '127.0.0.1:0',
      MONITOR_DATA_DIR: folder,
      CATALOGUE_PATH: join(folder, 'catalogue.yaml'),
      CONNECTIVITY_CHECK_URLS: '',
      PROBER_ENABLED: 'false',
      LOG_LEVEL: 'info',
    }),
  })
  await sendFirstRules(server, 5_000)
  await monitor.logged('Successfully loaded new configuration')
  await monitor.logged("Listening for the monitor on '")
  expect((await monitor.stop()).code).toBe(0)
})
