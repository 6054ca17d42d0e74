/** Stale rules, because the server cannot deliver newer ones: health and statistics must show it (spec 8.5). */
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../helpers/eventually.ts'
import { config, limit, type XdsServer } from '../../helpers/xds-server.ts'
import { loaded, SHOP } from './harness.ts'

vi.mock('../../../engine/runtime/job-thread.ts', () => import('./shared-job-thread.ts'))

const SUCCESS = 'ratelimit.service.config_load_success'
const ERROR = 'ratelimit.service.config_load_error'
const CONNECTED = 'sluice.xds.connected'
const LAST_RESPONSE = 'sluice.xds.last_response_timestamp_seconds'

const NEVER_MS = 3_600_000
const SOON_MS = 20
const SMALL = { XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: '10000' }

const first = (version = '1') => ({ version, resources: [limit('shop', 'user', 5)] })
const tooLarge = { version: '2', resources: [limit('shop', 'x'.repeat(10_000), 7)] }
const garbled = Uint8Array.of(0x0a, 0x7f)
const refused = { version: '2', resources: [config('bad.conf', 'shop', [{ key: 'user', rate_limit: {} }])] }
const TOO_LARGE =
  /^RESOURCE_EXHAUSTED: Received message larger than max .*\. XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES allows more$/

/** Sends a response and waits for the next request: on this stream, or the first one of a new stream. */
async function sent(server: XdsServer, response: Parameters<XdsServer['send']>[0]) {
  server.send(response)
  return server.request()
}

describe('8.5, 8.6: a response that cannot be loaded is a failed load', () => {
  const responses = [
    ['too large', tooLarge, TOO_LARGE],
    ['invalid', garbled, /^INTERNAL: Response message parsing error: index out of range/],
  ] as const
  for (const [name, response, text] of responses) {
    test(`${name}: counted and reported each time; the rules in force, sent again, do not hide it`, async () => {
      const { server, client } = await loaded(SMALL, NEVER_MS)
      for (let times = 1; times <= 3; times++) {
        expect(await sent(server, response)).toMatchObject({ version_info: '1' })
        const nonce = `again ${times}`
        expect(await sent(server, { ...first(), nonce })).toMatchObject({ response_nonce: nonce })
        expect(client.stats()).toEqual({ [SUCCESS]: 1, [ERROR]: times })
        expect(client.state.failure).toMatch(text)
      }
      expect(client.errorLines()).toHaveLength(1)
      await sent(server, first('3')) // the same rules in a new version
      expect(await client.rules()).toBe(SHOP)
      expect(client.state.failure).toBeNull()
      expect(client.stats()).toEqual({ [SUCCESS]: 2, [ERROR]: 3 })
    })
  }

  test('an error status of the server is not a response', async () => {
    const { server, client } = await loaded()
    server.endStreams({ code: 8, details: 'too many clients' })
    await server.request()
    expect(client.errorLines()[0]).toContain('RESOURCE_EXHAUSTED: too many clients;')
    expect(client.stats()).toEqual({ [SUCCESS]: 1 })
    expect(client.state.failure).toBeNull()
  })
})

describe('8.6: the rules in force, sent again', () => {
  test('are acknowledged; they are not a load and do not reset the waits', async () => {
    const { server, client } = await loaded({ XDS_CLIENT_BACKOFF_JITTER: 'false' }, NEVER_MS)
    for (let i = 0; i < 3; i++) {
      server.endStreams()
      await server.request()
      expect(await sent(server, { ...first(), nonce: 'other' })).toMatchObject({
        version_info: '1',
        response_nonce: 'other',
      })
    }
    expect(client.stats()).toEqual({ [SUCCESS]: 1 })
    const waits = client.lines.flatMap(
      (line) => / reconnecting to the xDS Management Server in (.*)/.exec(line)?.[1] ?? [],
    )
    expect(waits).toEqual(['20ms', '40ms', '80ms'])
  })

  test('are a load if the version or the content differs', async () => {
    const { server, client } = await loaded({}, NEVER_MS)
    await sent(server, { version: '1', resources: [limit('shop', 'user', 6)] })
    expect(await client.rules()).toBe(SHOP.replace('5', '6'))
    await sent(server, first())
    expect(await client.rules()).toBe(SHOP)
    await sent(server, first('2'))
    expect(await client.rules()).toBe(SHOP)
    expect(client.stats()).toEqual({ [SUCCESS]: 4 })
  })
})

describe('8.5, 8.6: a failure ends without a load', () => {
  test('when the server has returned to the rules in force', async () => {
    const { server, client } = await loaded({}, SOON_MS)
    await sent(server, refused)
    expect(client.state.failure).toContain('bad.conf')
    await sent(server, first())
    await eventually(() => expect(client.state.failure).toBeNull())
    expect(client.lines).toContain('info the management server has gone back to the rules in force')
    expect(client.stats()).toEqual({ [SUCCESS]: 1, [ERROR]: 1 })
  })

  test('when a new stream stays open without a response', async () => {
    const { server, client } = await loaded(SMALL, SOON_MS)
    await sent(server, tooLarge)
    await eventually(() => expect(client.state.failure).toBeNull())
    expect(client.stats()).toEqual({ [SUCCESS]: 1, [ERROR]: 1 })
  })

  test('but not while the server assumes that the refused version is loaded', async () => {
    const { server, client } = await loaded({ XDS_CLIENT_BACKOFF_JITTER: 'false' }, SOON_MS)
    await sent(server, refused)
    server.endStreams()
    expect(await server.request()).toMatchObject({ version_info: '2' })
    await eventually(async () => expect(await waitedOut(client.lines, server)).toBe(true))
    expect(client.state.failure).toContain('bad.conf')
  })
})

/** Ends a stream after SOON_MS. True if the wait was reset, so one stream was open long enough. */
async function waitedOut(lines: readonly string[], server: XdsServer): Promise<boolean> {
  server.endStreams()
  await server.request()
  await new Promise((resolve) => setTimeout(resolve, 2 * SOON_MS))
  return lines.filter((line) => line.endsWith('reconnecting to the xDS Management Server in 20ms')).length > 1
}

test('7, 8.6: gauges for the connection and the time of the last response', async () => {
  const { server, client } = await loaded({
    XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '1h',
    XDS_CLIENT_BACKOFF_MAX_INTERVAL: '1h',
  })
  const { [CONNECTED]: connected, [LAST_RESPONSE]: time } = client.gauges()
  expect(connected).toBe(1)
  expect(Math.abs(time - Date.now() / 1_000)).toBeLessThan(60)
  expect(client.state.isAway).toBe(false)
  server.stop()
  await eventually(() => expect(client.gauges()).toEqual({ [CONNECTED]: 0, [LAST_RESPONSE]: time }))
  expect(client.state.isAway).toBe(true)
})
