/** The stream with a management server (spec 8.6) over sockets: requests, responses and the rules in force. */
import { once } from 'node:events'
import { status } from '@grpc/grpc-js'
import { describe, expect, test, vi } from 'vitest'
import { eventually } from '../../helpers/eventually.ts'
import { freePort } from '../../helpers/ports.ts'
import { CONFIG, config, limit, responseBytes, startXdsServer } from '../../helpers/xds-server.ts'
import { createSource, follow, loaded, SHOP, startSilentServer } from './harness.ts'

vi.mock('../../../engine/runtime/job-thread.ts', () => import('./shared-job-thread.ts'))

const SUCCESS = 'ratelimit.service.config_load_success'
const ERROR = 'ratelimit.service.config_load_error'
const LOST = 'Failed to receive configuration from xDS Management Server:'
const AGAIN = 'reconnecting to the xDS Management Server in '

const bad = () => config('bad.conf', 'shop', [{ key: 'user', rate_limit: {} }])
const BAD = "bad.conf: invalid rate limit unit 'UNKNOWN'"
const undecodable = { type_url: CONFIG, value: Uint8Array.of(0x1a, 0x7f) }

describe('8.6 one stream', () => {
  test('the first request of a process has the node and the type, no version', async () => {
    const server = await startXdsServer()
    follow(server.target, {
      CONFIG_GRPC_XDS_NODE_ID: 'edge-1',
      CONFIG_GRPC_XDS_NODE_METADATA: 'zone=a,flag,query=a=b,none=',
    })
    expect(await server.request()).toEqual({
      node: {
        id: 'edge-1',
        metadata: {
          fields: {
            zone: { string_value: 'a' },
            query: { string_value: 'a=b' },
            none: { string_value: '' },
          },
        },
      },
      type_url: CONFIG,
    })
  })

  test('warnings about rules are logged with the name of the resource', async () => {
    const server = await startXdsServer()
    const client = follow(server.target)
    await server.request()
    const rate_limit = { unit: 4, requests_per_unit: 1 }
    const user = { key: 'user', rate_limit, descriptors: [{ key: 'plan', rate_limit }] }
    server.send({ version: '1', resources: [config('shop.conf', 'shop', [user])] })
    const getWarning = () => client.lines.find((line) => line.startsWith('warning shop.conf: '))
    await eventually(() =>
      expect(getWarning()).toContain("'shop.user.plan' (shop.conf) requested with user=7, plan=7"),
    )
  })

  test('a response takes effect, then is acknowledged with its version and nonce', async () => {
    const server = await startXdsServer()
    const client = follow(server.target)
    const { node, type_url } = await server.request()
    expect(node).toEqual({ id: 'default', metadata: {} }) // metadata is sent even if empty
    server.send({ version: '1', nonce: 'a', resources: [limit('shop', 'user', 5)] })
    expect(await client.rules()).toBe(SHOP)
    await client.hasLoaded
    expect(await server.request()).toEqual({ node, type_url, version_info: '1', response_nonce: 'a' })
    expect(client.stats()).toEqual({ [SUCCESS]: 1 })
    expect(client.lines).toContain('info Successfully loaded new configuration')
  })

  test('each response is the whole configuration; without resources it is empty', async () => {
    const { server, client } = await loaded()
    server.send({ version: '2', resources: [limit('mail', 'to', 7), limit('chat', 'room', 9)] })
    expect(await client.rules()).toBe(
      'mail\n  to                    7/YEAR\nchat\n  room                  9/YEAR',
    )
    expect(await server.request()).toMatchObject({ version_info: '2', response_nonce: 'n2' })
    server.send({ version: '3' })
    expect(await client.rules()).toBe('')
    expect(await server.request()).toMatchObject({ version_info: '3', response_nonce: 'n3' })
    expect(client.stats()).toEqual({ [SUCCESS]: 3 })
  })

  test('invalid rules: refused with the last good version and the error; the next valid response is loaded', async () => {
    const { server, client } = await loaded()
    server.send({ version: '2', resources: [limit('mail', 'to', 7), bad()] })
    const { version_info, response_nonce, error_detail, node } = await server.request()
    expect({ version_info, response_nonce, error_detail }).toEqual({
      version_info: '1',
      response_nonce: 'n2',
      error_detail: { message: BAD },
    })
    expect(node).toMatchObject({ id: 'default' })
    expect(client.stats()).toEqual({ [SUCCESS]: 1, [ERROR]: 1 })
    expect(client.errorLines()).toEqual([`error Error loading new configuration: ${BAD}`])
    server.send({ version: '3', resources: [limit('mail', 'to', 7)] })
    expect(await client.rules()).toContain('mail')
    const acknowledged = await server.request()
    expect(acknowledged).toMatchObject({ version_info: '3', response_nonce: 'n3' })
    expect(acknowledged).not.toHaveProperty('error_detail')
  })

  test('the error of a refusal is truncated', async () => {
    const { server } = await loaded()
    const key = 'k'.repeat(100_000)
    server.send({ version: '2', resources: [config('c', 'shop', [{ key }, { key }])] })
    const { error_detail } = await server.request()
    expect(error_detail?.message).toMatch(/^c: duplicate descriptor composite key 'shop\.kkk/)
    expect(error_detail?.message).toHaveLength(4_096)
  })

  const undecodables = [
    [
      'bytes that are cut',
      undecodable,
      'resource 2 cannot be decoded: a message of 127 bytes begins 0 before',
    ],
    [
      'another type',
      { type_url: 'type.googleapis.com/envoy.Cluster', value: Buffer.of() },
      'resource 2 cannot be decoded: mismatched message type: got "envoy.Cluster", want "ratelimit.config',
    ],
  ] as const
  for (const [name, resource, text] of undecodables) {
    test(`${name}: refused, nothing loads, and a start keeps waiting`, async () => {
      const server = await startXdsServer()
      const client = follow(server.target)
      await server.request()
      server.send({ version: '1', resources: [limit('shop', 'user', 5), resource] })
      const refusal = await server.request()
      expect(refusal).not.toHaveProperty('version_info')
      expect(refusal.response_nonce).toBe('n1')
      expect(refusal.error_detail?.message).toContain(text)
      expect(client.stats()).toEqual({ [ERROR]: 1 })
      expect(client.errorLines()[0]).toContain(text)
      let hasLoaded = false
      void client.hasLoaded.then(() => {
        hasLoaded = true
      })
      server.send({ version: '2', resources: [undecodable] })
      await server.request() // by now the first refusal would have ended the wait
      expect(hasLoaded).toBe(false)
      server.send({ version: '3', resources: [bad()] }) // a load, although it fails
      await client.hasLoaded
    })
  }

  test('a server that repeats a bad response is refused each time, logged once, and slowed down', async () => {
    const { server, client } = await loaded()
    const startMs = performance.now()
    for (let i = 0; i < 4; i++) {
      server.send({ version: '2', nonce: `n2.${i}`, resources: [bad()] })
      expect(await server.request()).toMatchObject({ version_info: '1', response_nonce: `n2.${i}` })
    }
    expect(performance.now() - startMs).toBeGreaterThan(300) // 100 ms between two
    expect(client.stats()[ERROR]).toBe(4)
    expect(client.errorLines()).toHaveLength(1)
  })

  test('responses that arrive during a load are all answered, in order', async () => {
    const { server, client } = await loaded()
    const versions = ['2', '3', '4', '5']
    for (const version of versions)
      server.send({ version, resources: [limit('shop', 'user', Number(version))] })
    for (const version of versions) {
      expect(await client.rules()).toContain(`${version}/YEAR`)
      expect(await server.request()).toMatchObject({ version_info: version, response_nonce: `n${version}` })
    }
  })

  test('12#26: value_to_metric and share_threshold are ignored; MERGE_DOMAIN_CONFIG is not', async () => {
    const server = await startXdsServer()
    const client = follow(server.target, { MERGE_DOMAIN_CONFIG: 'true' })
    await server.request()
    const rate_limit = { unit: 'DAY', requests_per_unit: 3 }
    const shop = (...keys: string[]) =>
      config(
        'c',
        'shop',
        keys.map((key) => ({ key, rate_limit })),
      )
    const unknown = Buffer.from([...shop('b').value, 0x48, 1, 0x50, 1]) // fields 9 and 10 are unknown
    server.send({ version: '1', resources: [shop('c', 'a'), { type_url: CONFIG, value: unknown }] })
    expect(await client.rules()).toBe(
      'shop\n  c                     3/DAY\n  a                     3/DAY\n  b                     3/DAY',
    )
  })

  test('headers are sent with every call, names in lower case', async () => {
    const { server } = await loaded({
      CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'X-Token:s3cret,authorization:Basic abc,trace-bin:ab',
    })
    server.endStreams()
    await server.request()
    expect(server.headers).toHaveLength(2)
    for (const headers of server.headers) {
      expect(headers.get('x-token')).toEqual(['s3cret'])
      expect(headers.get('authorization')).toEqual(['Basic abc'])
      expect(headers.get('trace-bin')).toEqual([Buffer.from('ab')])
    }
  })

  test('an invalid header stops the start; the error does not have its value', () => {
    const wrong = () => createSource('x:1', { CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'x y:hunter2' })
    expect(wrong).toThrow(
      /ADDITIONAL_HEADERS: the header "x y" has invalid characters\. .* \[XDS_HEADER_INVALID\]/,
    )
    expect(wrong).not.toThrow(/hunter2/)
    expect(() => createSource('x:1', { CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS: 'x:\n' })).toThrow(/"x"/)
  })
})

describe('8.6 connections', () => {
  test('a server that restarts receives version and nonce of the last response; rules stay meanwhile', async () => {
    const { server, client } = await loaded()
    server.stop()
    const again = await startXdsServer({ port: server.port })
    expect(await again.request()).toMatchObject({ version_info: '1', response_nonce: 'n1' })
    again.send({ version: '2', resources: [limit('mail', 'to', 7)] })
    expect(await client.rules()).toContain('mail')
    expect(client.stats()).toEqual({ [SUCCESS]: 2 })
    expect(client.errorLines()[0]).toContain(LOST)
  })

  test('12#40: the same after a refused response, but the next refusal names the last good version', async () => {
    const { server } = await loaded()
    server.send({ version: '2', resources: [bad()] })
    expect(await server.request()).toMatchObject({ version_info: '1', response_nonce: 'n2' })
    server.endStreams()
    const first = await server.request()
    expect(first).toMatchObject({ version_info: '2', response_nonce: 'n2' })
    expect(first).not.toHaveProperty('error_detail')
    server.send({ version: '3', resources: [bad()] })
    expect(await server.request()).toMatchObject({ version_info: '1', response_nonce: 'n3' })
  })

  test('a server that starts later', async () => {
    const port = await freePort()
    const client = follow(`127.0.0.1:${port}`)
    await eventually(() => expect(getWaits(client.lines).length).toBeGreaterThan(2))
    expect(client.errorLines()).toHaveLength(1) // equal errors are logged once
    expect(client.errorLines()[0]).toContain('UNAVAILABLE: No connection established.')
    expect(client.errorLines()[0]).toContain('ECONNREFUSED')
    const server = await startXdsServer({ port })
    await server.request()
    server.send({ version: '1', resources: [limit('shop', 'user', 5)] })
    expect(await client.rules()).toBe(SHOP)
  })

  test('a message that is too large: logged, rules stay, and a smaller one is loaded', async () => {
    const { server, client } = await loaded({ XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES: '10000' })
    server.send({ version: '2', resources: [limit('mail', 'x'.repeat(10_000), 7)] })
    expect(await server.request()).toMatchObject({ version_info: '1', response_nonce: 'n1' }) // reconnected
    expect(client.errorLines()[0]).toMatch(/RESOURCE_EXHAUSTED: .*\(10\d{3} vs 10000\)/)
    expect(client.stats()).toEqual({ [SUCCESS]: 1, [ERROR]: 1 })
    server.send({ version: '3', resources: [limit('mail', 'to', 7)] })
    expect(await client.rules()).toContain('mail')
  })

  test('the default maximum is 4 MiB', async () => {
    const { server, client } = await loaded()
    const name = 'x'.repeat(4 * 2 ** 20)
    server.send({ version: '2', resources: [config(name.slice(1_000), 'mail', [])] })
    expect(await client.rules()).toBe('mail')
    await server.request()
    server.send({ version: '3', resources: [config(name, 'mail', [])] })
    await server.request()
    expect(client.errorLines()[0]).toContain('RESOURCE_EXHAUSTED')
  })

  test('an invalid response ends the stream, and a new one begins', async () => {
    const { server, client } = await loaded()
    server.send(Uint8Array.of(0x0a, 0x7f))
    expect(await server.request()).toMatchObject({ version_info: '1', response_nonce: 'n1' })
    expect(client.errorLines()[0]).toMatch(/INTERNAL: .*index out of range/)
  })

  test('12#18: a server that ends each stream: waits before reconnecting grow', async () => {
    const server = await startXdsServer()
    const client = follow(server.target, {
      XDS_CLIENT_BACKOFF_JITTER: 'false',
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: '80ms',
    })
    for (let i = 0; i < 5; i++) {
      await server.request()
      server.endStreams(i % 2 ? { code: status.ABORTED, details: 'not now' } : undefined)
    }
    await server.request()
    expect(getWaits(client.lines)).toEqual(['20ms', '40ms', '80ms', '80ms', '80ms'])
    expect(client.errorLines()[0]).toContain(`${LOST} the server ended the stream`)
    expect(client.errorLines()[1]).toContain(`${LOST} ABORTED: not now`)
    server.send({ version: '1', resources: [bad()] })
    await server.request()
    server.endStreams()
    await server.request()
    server.send({ version: '2', resources: [limit('shop', 'user', 5)] }) // a valid response resets the wait, an invalid one does not
    await server.request()
    server.endStreams()
    await server.request()
    expect(getWaits(client.lines).slice(5)).toEqual(['80ms', '20ms'])
  })

  test('10: XDS_CLIENT_BACKOFF_JITTER: waits are between the first one and the doubled ones', async () => {
    const server = await startXdsServer()
    const client = follow(server.target, { XDS_CLIENT_BACKOFF_MAX_INTERVAL: '10s' })
    const widest = [20, 40, 80, 160]
    for (const _ of widest) {
      await server.request()
      server.endStreams()
    }
    await server.request()
    const waits = getWaits(client.lines).map((wait) => Number.parseInt(wait, 10))
    for (const [i, wait] of waits.entries()) {
      expect(wait).toBeGreaterThanOrEqual(20)
      expect(wait).toBeLessThanOrEqual(widest[i])
    }
    expect(waits).not.toEqual(widest)
  })

  test('a wait is at most the maximum, even if the initial one is longer', async () => {
    const server = await startXdsServer()
    const client = follow(server.target, { XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '1h' })
    await server.request()
    server.endStreams()
    await server.request()
    expect(getWaits(client.lines)).toEqual(['100ms'])
  })
})

describe('8.3 closing', () => {
  test('while the server is disconnected', async () => {
    const client = follow(`127.0.0.1:${await freePort()}`, {
      XDS_CLIENT_BACKOFF_INITIAL_INTERVAL: '1h',
      XDS_CLIENT_BACKOFF_MAX_INTERVAL: '1h',
    })
    await eventually(() => expect(client.errorLines()).not.toEqual([]))
    expect(getWaits(client.lines)).toEqual(['1s']) // whatever the wait after a stream
    await client.source.close()
  })

  for (const usesTls of ['false', 'true']) {
    test(`while a server has accepted and sends nothing; TLS ${usesTls}`, async () => {
      const silent = await startSilentServer()
      const client = follow(silent.target, { CONFIG_GRPC_XDS_SERVER_USE_TLS: usesTls })
      const socket = await silent.accepted
      const closed = once(socket, 'close')
      await client.source.close()
      await closed
      expect(client.errorLines()).toEqual([])
    })
  }

  test('while rules load: they do not take effect, and nothing is logged', async () => {
    const { server, client } = await loaded()
    const many = Array.from({ length: 20_000 }, (_, i) => ({ key: `k${i}` }))
    server.send(responseBytes({ version: '2', resources: [config('many', 'many', many)] }))
    await turns(20) // the load begins; it takes longer
    const count = client.lines.length
    await client.source.close()
    expect(client.lines).toHaveLength(count)
    expect(client.stats()).toEqual({ [SUCCESS]: 1 })
    expect(server.waitingCount).toBe(0)
  })
})

function getWaits(lines: string[]): string[] {
  return lines.filter((line) => line.includes(AGAIN)).map((line) => line.split(AGAIN)[1])
}

/** Turns of the event loop. */
async function turns(count: number): Promise<void> {
  for (let i = 0; i < count; i++) await new Promise(setImmediate)
}
