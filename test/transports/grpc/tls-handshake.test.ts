/**
 * TLS handshakes, independent of the frontend: what is negotiated, and handshakes that do not complete.
 */
import { execFile } from 'node:child_process'
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { ConnectionOptions } from 'node:tls'
import { promisify } from 'node:util'
import { describe, expect, test } from 'vitest'
import { http2Frontend as make } from '../../../transports/grpc/http2/server.ts'
import { OK } from '../fake-rate-limiter.ts'
import {
  ask,
  closed,
  HOST,
  made,
  openTlsPort,
  portTls,
  tlsClient,
  tlsSocket,
  useCertificates,
} from './open-tls-port.ts'

useCertificates()

describe('5.7: negotiation', () => {
  // biome-ignore format: the columns are the specification
  const offers: [what: string, ConnectionOptions, protocol: string | null, refused: RegExp | null][] = [
    ['h2',              { ALPNProtocols: ['h2'] },             'TLSv1.3', null],
    ['h2 among others', { ALPNProtocols: ['http/1.1', 'h2'] }, 'TLSv1.3', null],
    ['TLS 1.2',         { maxVersion: 'TLSv1.2' },             'TLSv1.2', null],
    ['no ALPN at all',  { ALPNProtocols: [] },                 'TLSv1.3', /does not offer the protocol h2 \(ALPN\)/],
    ['only http/1.1',   { ALPNProtocols: ['http/1.1'] },       null,      /no application protocol/],
    ['TLS 1.1',         { minVersion: 'TLSv1.1', maxVersion: 'TLSv1.1', ciphers: 'ALL@SECLEVEL=0' }, null, /unsupported protocol/],
  ]
  for (const [what, options, protocol, why] of offers) {
    test(`5.7: ${what}: ${why === null ? protocol : 'refused'}`, async () => {
      const { port, refused } = await openTlsPort(make, { handshakeMs: 100 })
      const socket = tlsSocket(port, options)
      let agreed: string | null = null
      socket.on('secureConnect', () => {
        agreed = socket.getProtocol()
      })
      await closed(socket)
      expect(agreed).toBe(protocol)
      expect(refused).toEqual(why === null ? [] : [expect.stringMatching(why)])
    })
  }

  test('a client cannot renegotiate', async () => {
    const { port } = await openTlsPort(make)
    const socket = tlsSocket(port, { maxVersion: 'TLSv1.2' })
    await once(socket, 'secureConnect')
    const refused = once(socket, 'error')
    socket.renegotiate({}, () => {})
    expect((await refused)[0].code).toBe('ERR_SSL_NO_RENEGOTIATION')
  })

  test('5.7: public authorities are accepted beside the configured CA, so a name should be required', async () => {
    const { port } = await openTlsPort(make, { tls: portTls({ clientCa: made.ours.ca }) })
    const { stdout } = await promisify(execFile)('sh', [
      '-c',
      `openssl s_client -alpn h2 -connect ${HOST}:${port} </dev/null || true`,
    ])
    const named = stdout.slice(stdout.indexOf('Acceptable client certificate CA names'))
    expect(named).toContain('CN = Test CA\n')
    expect(named.split('\n').length).toBeGreaterThan(100)
  })
})

describe('incomplete handshakes', () => {
  test('are closed after the timeout, whatever they sent', async () => {
    const { port, refused, sockets } = await openTlsPort(make, { door: { handshakeMs: 150 } })
    const silent = connect(port, HOST)
    const half = connect(port, HOST).on('connect', () => half.write(Buffer.of(0x16, 3, 1, 2, 0, 1)))
    const startMs = performance.now()
    await Promise.all([closed(silent), closed(half)])
    expect(performance.now() - startMs).toBeGreaterThan(120)
    expect(sockets).toEqual([])
    expect(refused).toEqual(Array(2).fill('info a TLS handshake took longer than 150 ms (from 127.0.0.1)'))
  })

  test('garbage closes that connection and no other', async () => {
    const { port, refused } = await openTlsPort(make)
    const client = tlsClient(port)
    expect(await ask(client)).toEqual(OK)
    const garbage = ['GET / HTTP/1.1\r\n\r\n', '\0'.repeat(10), '\x16\x03\x01\x00\x05hello', '\x80\x2e\x01']
    for (const bytes of garbage) {
      const socket = connect(port, HOST)
      socket.end(Buffer.from(bytes, 'latin1'))
      await closed(socket)
    }
    expect(await ask(client)).toEqual(OK)
    expect(refused.length).toBeGreaterThan(1)
    for (const line of refused) expect(line).toMatch(/^info a TLS handshake failed: [a-z0-9 ]+ \(from 127/)
  })

  test('the oldest is closed when there are too many, so that an active client gets in', async () => {
    const { port, refused } = await openTlsPort(make, { door: { handshakesMax: 3 } })
    const gone: number[] = []
    const silent: Socket[] = []
    for (let i = 0; i < 5; i++) {
      const socket = connect(port, HOST)
      void closed(socket).then(() => gone.push(i))
      silent.push(socket)
      await once(socket, 'connect')
    }
    expect(await ask(tlsClient(port))).toEqual(OK)
    expect(gone).toEqual([0, 1, 2])
    expect(refused).toEqual(Array(3).fill('info more than 3 TLS handshakes are under way'))
    for (const socket of silent) socket.destroy()
  })

  test('completed handshakes do not count', async () => {
    const { port, refused } = await openTlsPort(make, { door: { handshakesMax: 2 } })
    const clients = Array.from({ length: 6 }, () => tlsClient(port))
    for (const client of [...clients, ...clients]) expect(await ask(client)).toEqual(OK)
    expect(refused).toEqual([])
  })

  test('end with the acceptor, and a client that disconnects is not reported', async () => {
    const { port, door, refused } = await openTlsPort(make)
    const gone = connect(port, HOST)
    await once(gone, 'connect')
    gone.destroy()
    const silent = connect(port, HOST)
    await once(silent, 'connect')
    expect(await ask(tlsClient(port))).toEqual(OK) // a later connection is served, so this one is accepted
    door.close()
    await closed(silent)
    expect(refused).toEqual([])
  })
})
