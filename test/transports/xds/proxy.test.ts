/**
 * A proxy on the way to the management server (spec 10: HTTPS_PROXY, NO_PROXY): the rules of Go's net/http, and a real
 * proxy on 127.0.0.1. Loopback addresses have none, so servers are named, and it is the proxy that knows where they are.
 */
import { once } from 'node:events'
import { createServer, type IncomingMessage } from 'node:http'
import { type AddressInfo, connect, type Socket } from 'node:net'
import { describe, expect, onTestFinished, test, vi } from 'vitest'
import { proxyFor } from '../../../transports/xds/proxy.ts'
import { makeCertificates } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { limit, startXdsServer } from '../../helpers/xds-server.ts'
import { follow, startSilentServer } from './harness.ts'

vi.mock('../../../engine/runtime/job-thread.ts', () => import('./shared-job-thread.ts'))

describe('10: which proxy', () => {
  const server = { host: 'xds.test', port: 18_000 }

  // biome-ignore format: the columns are the specification
  const named = [
    // environment -> address, authorization
    [{},                                                                     null],
    [{ HTTPS_PROXY: '' },                                                    null],
    [{ HTTPS_PROXY: 'http://p:3128' },                                       ['p:3128', '']],
    [{ HTTPS_PROXY: 'p:3128' },                                              ['p:3128', '']],
    [{ HTTPS_PROXY: 'http://p/' },                                           ['p:80', '']],
    [{ HTTPS_PROXY: 'http://[::1]:3128' },                                   ['[::1]:3128', '']],
    [{ https_proxy: 'http://p:3128' },                                       ['p:3128', '']],
    [{ HTTPS_PROXY: 'http://p:3128', https_proxy: 'http://other:1' },        ['p:3128', '']],
    [{ HTTPS_PROXY: '', https_proxy: 'http://p:3128' },                      ['p:3128', '']],
    [{ HTTP_PROXY: 'http://p:1', http_proxy: 'http://p:2', ALL_PROXY: 'p' }, null],
    [{ HTTPS_PROXY: 'http://us%40er:p%3Aw@p:3128' },                         ['p:3128', 'Basic dXNAZXI6cDp3']],
    [{ HTTPS_PROXY: 'p:1', NO_PROXY: 'xds.test' },                           null],
    [{ HTTPS_PROXY: 'p:1', no_proxy: 'xds.test' },                           null],
    [{ HTTPS_PROXY: 'p:1', NO_PROXY: 'other', no_proxy: 'xds.test' },        ['p:1', '']],
  ] as const
  for (const [env, expected] of named) {
    test(`${JSON.stringify(env)}: ${expected}`, () => {
      const proxy = proxyFor(server, env)
      expect(proxy && [proxy.address, proxy.authorization]).toEqual(expected)
    })
  }

  for (const HTTPS_PROXY of ['socks5://p:1', 'https://p:1', 'http://', 'a b']) {
    test(`${HTTPS_PROXY} cannot be used; the error does not have its text`, () => {
      const wrong = () => proxyFor(server, { HTTPS_PROXY })
      expect(wrong).toThrow(/^HTTPS_PROXY is not a URL such as http:\/\/proxy\.example:3128$/)
    })
  }

  // biome-ignore format: the columns are the specification
  const exceptions = [
    // host, port, NO_PROXY -> is there a proxy
    ['localhost',     1,  '',                   false],
    ['127.0.0.9',     1,  '',                   false],
    ['::1',           1,  '',                   false],
    ['::ffff:7f00:1', 1,  '',                   false], // 127.0.0.1
    ['localhost.',    1,  '',                   true ],
    ['a.test',        1,  '*',                  false],
    ['a.test',        1,  'b.test, A.test ',    false],
    ['A.test',        1,  'a.test',             false],
    ['b.a.test',      1,  'a.test',             false],
    ['ba.test',       1,  'a.test',             true ],
    ['a.test',        1,  '.a.test',            true ],
    ['b.a.test',      1,  '.a.test',            false],
    ['a.test',        1,  '*.a.test',           true ],
    ['b.a.test',      1,  '*.a.test',           false],
    ['a.test',        80, 'a.test:80',          false],
    ['a.test',        81, 'a.test:80',          true ],
    ['a.test',        1,  ',,a',                true ], // nothing between commas means nothing
    ['192.0.2.7',     1,  '192.0.2.7',          false],
    ['192.0.2.7',     1,  '192.0.2.0/29',       false],
    ['192.0.2.8',     1,  '192.0.2.0/29',       true ],
    ['192.0.2.7',     1,  '192.0.2.7:2',        true ],
    ['192.0.2.7',     1,  '192.0.2.0/33',       true ], // no range
    ['1192.0.2.7.x',  1,  '192.0.2.0/24',       true ],
    ['2001:db8::1',   1,  '2001:db8:0::1',      false],
    ['2001:db8::1',   1,  '2001:db8::/32',      false],
    ['2001:db8::1',   9,  '[2001:db8::1]:9',    false],
    ['2001:db8::1',   1,  '[2001:db8::1]:9',    true ],
  ] as const
  for (const [host, port, NO_PROXY, isProxied] of exceptions) {
    test(`${host} on ${port} without ${NO_PROXY}: ${isProxied}`, () => {
      expect(proxyFor({ host, port }, { HTTPS_PROXY: 'p:1', NO_PROXY }) !== null).toBe(isProxied)
    })
  }
})

/** Takes CONNECT for any name, and leads to 127.0.0.1. */
async function startProxy(serverPort: number, status = 200) {
  const asked: IncomingMessage[] = []
  const sockets = new Set<Socket>()
  const proxy = createServer().on('connect', (request, client: Socket) => {
    asked.push(request)
    if (status !== 200) {
      client.end(`HTTP/1.1 ${status} No\r\n\r\n`)
      return
    }
    const server = connect(serverPort, '127.0.0.1', () => client.write('HTTP/1.1 200 Fine\r\n\r\n'))
    for (const socket of [client, server]) sockets.add(socket.on('error', () => {}))
    client.pipe(server).pipe(client)
  })
  proxy.listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  onTestFinished(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
    vi.unstubAllEnvs()
  })
  const address = `127.0.0.1:${(proxy.address() as AddressInfo).port}`
  vi.stubEnv('HTTPS_PROXY', `http://user:sesame@${address}`)
  return { address, asked }
}

describe('8.6, 10: through a proxy', () => {
  for (const usesTls of [false, true]) {
    test(`rules are loaded, and the server is addressed by its own name; TLS ${usesTls}`, async () => {
      const certificates = await makeCertificates('DNS:xds.test')
      onTestFinished(() => certificates.remove())
      const server = await startXdsServer(usesTls ? { tls: certificates } : {})
      const { address, asked } = await startProxy(server.port)
      const client = follow('xds.test:18000', {
        CONFIG_GRPC_XDS_SERVER_USE_TLS: String(usesTls),
        CONFIG_GRPC_XDS_SERVER_TLS_CACERT: certificates.ca,
      })
      await server.request()
      server.send({ version: '1', resources: [limit('shop', 'user', 5)] })
      expect(await client.rules()).toContain('user')
      expect(asked.map(({ url, headers }) => [url, headers.host, headers['proxy-authorization']])).toEqual([
        ['xds.test:18000', 'xds.test:18000', `Basic ${btoa('user:sesame')}`],
      ])
      expect(server.authorities).toEqual(['xds.test:18000'])
      expect(client.lines).toContain(`info connected to xds.test:18000 through ${address} for rules`)
      expect(client.lines.join()).not.toContain('sesame')
    })
  }

  test('a refusal is logged', async () => {
    await startProxy(1, 407)
    const client = follow('xds.test:18000')
    await eventually(() => expect(client.errorLines()).not.toEqual([]))
    expect(client.errorLines()[0]).toContain('the proxy answers CONNECT with 407')
  })

  test('an invalid proxy is logged and not used', async () => {
    const server = await startXdsServer()
    vi.stubEnv('HTTPS_PROXY', 'socks5://user:sesame@p:1')
    onTestFinished(() => void vi.unstubAllEnvs())
    const client = follow(`dns:///xds.invalid:${server.port}`)
    expect(client.lines[0]).toMatch(
      /^warning connecting to the management server without a proxy: HTTPS_PROXY is/,
    )
    expect(client.lines.join()).not.toContain('sesame')
  })

  test('closing ends a connection to a proxy that does not respond', async () => {
    const silent = await startSilentServer()
    vi.stubEnv('HTTPS_PROXY', silent.target)
    onTestFinished(() => void vi.unstubAllEnvs())
    const client = follow('xds.test:18000')
    const socket = await silent.accepted
    const closed = once(socket, 'close')
    const [words] = await once(socket, 'data')
    expect(String(words)).toMatch(/^CONNECT xds\.test:18000 HTTP\/1\.1\r\n/)
    await client.source.close()
    await closed
  })
})
