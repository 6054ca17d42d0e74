/**
 * TLS and mTLS in front of every frontend: real certificates, real clients, real sockets.
 */
import { once } from 'node:events'
import * as http2 from 'node:http2'
import { connect } from 'node:net'
import { join } from 'node:path'
import { status } from '@grpc/grpc-js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { listen } from '../../../transports/grpc/listener.ts'
import { createUnaryMethods } from '../../../transports/grpc/services.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { FakeRateLimiter, OK } from '../fake-rate-limiter.ts'
import { FRONTENDS, newClient } from './open-port.ts'
import {
  ask,
  closed,
  getStatusCode,
  HOST,
  made,
  openTlsPort,
  portTls,
  text,
  tlsClient,
  tlsSocket,
  useCertificates,
} from './open-tls-port.ts'

useCertificates()

/** Node's own HTTP/2 client. */
function sessionTo(port: number): http2.ClientHttp2Session {
  const session = http2.connect(`https://${HOST}:${port}`, {
    ca: text(made.ours.ca),
    servername: 'localhost',
  })
  onTestFinished(() => session.destroy())
  return session.on('error', () => {})
}

for (const [name, make] of Object.entries(FRONTENDS)) {
  describe(`${name} behind TLS`, () => {
    test('5.7: calls are answered, many at once, small and large', async () => {
      const { port } = await openTlsPort(make)
      const client = tlsClient(port)
      expect(await ask(client)).toEqual(OK)
      const answers = await Promise.all(Array.from({ length: 200 }, () => ask(client)))
      for (const answer of answers) expect(answer).toEqual(OK)
      expect(await ask(client, `large${'x'.repeat(1_000_000)}`)).toEqual(OK)
    })

    test('5.7: on a unix socket', async () => {
      const folder = makeTemporaryFolder()
      const path = join(folder, 'rls.sock')
      await openTlsPort(make, { path })
      expect(await ask(tlsClient(`unix:${path}`))).toEqual(OK)
    })

    test('5.7: a client that does not trust the server CA fails and is reported', async () => {
      const { port, refused, sockets } = await openTlsPort(make)
      expect(await getStatusCode(tlsClient(port, { ca: made.foreign.ca }))).toBe(status.UNAVAILABLE)
      expect(sockets).toHaveLength(0)
      expect(refused[0] ?? 'info a TLS handshake failed: ').toMatch(/^info a TLS handshake failed: /)
    })

    test('5.7: a plain-text client is closed, others are served', async () => {
      const { port, refused } = await openTlsPort(make)
      const plain = newClient(`${HOST}:${port}`)
      expect(await getStatusCode(plain)).toBe(status.UNAVAILABLE)
      plain.close()
      await eventually(() =>
        expect(refused[0]).toMatch(/^info a TLS handshake failed: .* \(from 127\.0\.0\.1\)$/),
      )
      expect(await ask(tlsClient(port))).toEqual(OK)
    })

    test('a TLS client on a plain-text port is closed, and others are served', async () => {
      const frontend = make({ methods: createUnaryMethods(new FakeRateLimiter(), () => {}) })
      const listener = await listen({ host: HOST, port: 0, onSocket: (socket) => frontend.accept(socket) })
      const plain = newClient(`${HOST}:${listener.port}`)
      onTestFinished(() => {
        plain.close()
        listener.stop()
        frontend.close()
      })
      const socket = tlsSocket(listener.port)
      await closed(socket)
      expect(socket.getProtocol()).toBe(null)
      expect(await getStatusCode(tlsClient(listener.port))).toBe(status.UNAVAILABLE)
      expect(await ask(plain)).toEqual(OK)
    })

    test('after the handshake, HTTP/2 must begin within the time limit', async () => {
      const { port } = await openTlsPort(make, { handshakeMs: 150 })
      const session = sessionTo(port)
      const silent = tlsSocket(port)
      await closed(silent)
      expect(silent.authorized).toBe(true) // the handshake succeeded
      await new Promise((resolve) => session.ping(resolve as () => void))
      expect(session.closed).toBe(false)
    })

    test('5.7: a new certificate applies to new connections; running calls continue', async () => {
      const { port, door, limiter } = await openTlsPort(make)
      const client = tlsClient(port)
      const running = ask(client, 'wait')
      await limiter.untilWaiting(1)
      const serial = async () => {
        const socket = tlsSocket(port)
        await once(socket, 'secureConnect')
        const { serialNumber } = socket.getPeerCertificate()
        socket.destroy()
        return serialNumber
      }
      const before = await serial()
      door.renew(portTls({ pair: made.renewed }))
      expect(await serial()).not.toBe(before)
      limiter.release()
      expect(await running).toEqual(OK)
      expect(await ask(client)).toEqual(OK) // the old connection
      expect(await ask(tlsClient(port))).toEqual(OK)
    })

    test('drain ends TLS connections in order', async () => {
      const { port, frontend, limiter } = await openTlsPort(make)
      const running = ask(tlsClient(port), 'wait')
      await limiter.untilWaiting(1)
      const drained = frontend.drain(10_000)
      limiter.release()
      expect(await running).toEqual(OK)
      await drained
    })

    test('the connection limit counts these until they close', async () => {
      const { port, drops, sockets } = await openTlsPort(make, { connectionsMax: 2 })
      for (let round = 0; round < 5; round++) {
        const session = sessionTo(port)
        await once(session, 'remoteSettings')
        session.destroy()
        await eventually(() => expect(sockets.every(({ destroyed }) => destroyed)).toBe(true))
      }
      expect(drops).toEqual([])
      const first = sessionTo(port)
      await once(first, 'remoteSettings')
      const silent = connect(port, HOST)
      await once(silent, 'connect')
      const third = tlsSocket(port)
      await closed(third)
      expect(third.authorized).toBe(false)
      expect(drops).toEqual(['more than 2 connections are open'])
      silent.destroy()
    })

    describe('5.7: with a client CA', () => {
      const open = (clientSan = '') =>
        openTlsPort(make, { tls: portTls({ clientCa: made.ours.ca, clientSan }) })

      test('a certificate of it is accepted, also on a resumed connection', async () => {
        const { port, refused, sockets } = await open('proxy.test')
        expect(await ask(tlsClient(port, { pair: made.proxy }))).toEqual(OK)
        const own = { cert: text(made.proxy.cert), key: text(made.proxy.key) }
        const [session] = await once(tlsSocket(port, own), 'session')
        const again = tlsSocket(port, { ...own, session })
        await once(again, 'secureConnect')
        expect(again.isSessionReused()).toBe(true)
        await eventually(() => expect(sockets).toHaveLength(3))
        expect(refused).toEqual([])
      })

      test('no certificate, untrusted, expired, for servers only: refused and reported', async () => {
        const { port, refused, sockets } = await open()
        const expired = await made.ours.issue('expired', { days: -1 })
        const server = await made.ours.issue('only-server', { usage: 'serverAuth' })
        expect(await getStatusCode(tlsClient(port))).toBe(status.UNAVAILABLE)
        for (const pair of [made.foreign, expired, server])
          expect(await getStatusCode(tlsClient(port, { pair }))).toBe(status.UNAVAILABLE)
        expect(sockets).toHaveLength(0)
        const lines = () => [...new Set(refused)] // the library connects again meanwhile
        await eventually(() =>
          expect(lines()).toEqual([
            'warning the client sent no certificate (from 127.0.0.1)',
            "warning the client's certificate is not accepted: UNABLE_TO_VERIFY_LEAF_SIGNATURE (from 127.0.0.1)",
            "warning the client's certificate is not accepted: CERT_HAS_EXPIRED (from 127.0.0.1)",
            "warning the client's certificate is not accepted: INVALID_PURPOSE (from 127.0.0.1)",
          ]),
        )
      })

      // biome-ignore format: the columns are the specification
      const names: [san: string, isServed: boolean][] = [
        ['proxy.test',      true ],
        ['PROXY.test',      true ],
        ['a.wild.test',     true ],
        ['192.0.2.7',       true ],
        ['2001:DB8::7',     true ],
        ['[2001:db8::7]',   true ],
        ['other.test',      false],
        ['a.b.wild.test',   false], // a wildcard is one label
        ['wild.test',       false],
        ['.wild.test',      false],
        ['localhost',       false], // the common name does not count
        ['192.0.2.8',       false],
      ]
      for (const [san, isServed] of names) {
        test(`5.7: ${san} is ${isServed ? '' : 'not '}a name of the client's certificate`, async () => {
          const { port, refused } = await open(san)
          const code = await getStatusCode(tlsClient(port, { pair: made.proxy }))
          expect(code).toBe(isServed ? status.OK : status.UNAVAILABLE)
          if (isServed) expect(refused).toEqual([])
          else
            await eventually(() =>
              expect(refused[0]).toBe(
                'warning error validating client: the certificate holds DNS:proxy.test, DNS:*.wild.test, ' +
                  `IP Address:192.0.2.7, IP Address:2001:DB8:0:0:0:0:0:7, not ${san} (from 127.0.0.1)`,
              ),
            )
        })
      }

      test('5.7: a certificate without alternative names has no name, whatever its common name is', async () => {
        const { port, refused } = await open('localhost')
        const pair = await made.ours.issue('common-name-only')
        expect(await getStatusCode(tlsClient(port, { pair }))).toBe(status.UNAVAILABLE)
        await eventually(() =>
          expect(refused[0]).toContain(
            'error validating client: the certificate holds no name, not localhost',
          ),
        )
      })

      test('a renewed CA refuses certificates of the old one, resumed sessions included', async () => {
        const { port, door, refused } = await open()
        const own = { cert: text(made.proxy.cert), key: text(made.proxy.key) }
        const [session] = await once(tlsSocket(port, own), 'session')
        door.renew(portTls({ clientCa: made.foreign.ca }))
        await closed(tlsSocket(port, { ...own, session }))
        expect(refused.at(-1)).toMatch(/^warning the client's certificate is not accepted: /)
      })
    })
  })
}
