/** One read buffer for all sockets of a thread: the behaviour of sockets stays the same. */
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import { connect, createServer, type Socket } from 'node:net'
import { join } from 'node:path'
import { type Duplex, duplexPair } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { connect as connectTls, createServer as createTlsServer } from 'node:tls'
import { describe, expect, onTestFinished, test } from 'vitest'
import { http2Frontend } from '../../../../transports/grpc/http2/server.ts'
import { readShared } from '../../../../transports/grpc/http2/shared-reads.ts'
import { listen } from '../../../../transports/grpc/listener.ts'
import { createUnaryMethods } from '../../../../transports/grpc/services.ts'
import { makeCertificates } from '../../../helpers/certificates.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../../helpers/temporary-folder.ts'
import { FakeRateLimiter } from '../../fake-rate-limiter.ts'
import { ask, openHttp2 } from './port.ts'
import { data, headers, RawPeer, REQUEST } from './raw-peer.ts'

/** Both ends of one connection, TCP or a unix socket. */
async function connection(isUnix = false) {
  const server = createServer()
  const directory = isUnix ? makeTemporaryFolder() : ''
  server.listen(isUnix ? { path: join(directory, 's') } : { port: 0, host: '127.0.0.1' })
  await once(server, 'listening')
  const address = server.address()!
  const peer = typeof address === 'string' ? connect(address) : connect(address.port, '127.0.0.1')
  const [accepted] = (await once(server, 'connection')) as [Socket]
  onTestFinished(() => {
    peer.destroy()
    server.close()
  })
  return { accepted, peer, server }
}

for (const isUnix of [false, true]) {
  describe(isUnix ? 'a unix socket' : 'TCP', () => {
    test('the reads of all sockets use the same bytes', async () => {
      const chunks: Buffer[] = []
      const texts: string[] = []
      const sockets = [await connection(isUnix), await connection(isUnix)]
      for (const { accepted } of sockets) {
        const own = readShared(accepted, (chunk) => {
          chunks.push(chunk)
          texts.push(String(chunk))
        })
        expect(own).not.toBe(accepted)
      }
      for (const [i, { peer }] of sockets.entries()) {
        peer.write(`hello ${i}`)
        await eventually(() => expect(texts).toHaveLength(i + 1))
      }
      expect(texts).toEqual(['hello 0', 'hello 1'])
      expect(String(chunks[0])).toBe('hello 1') // overwritten
      expect(chunks[0].buffer).toBe(chunks[1].buffer)
    })

    test('more than one buffer, with a pause in between, arrives whole', async () => {
      const { accepted, peer } = await connection(isUnix)
      const sent = Buffer.from(Array.from({ length: 1_000_003 }, (_, i) => i % 251))
      const parts: Buffer[] = []
      const own = readShared(accepted, (chunk) => {
        parts.push(Buffer.from(chunk))
        own.pause()
        setTimeout(() => own.resume(), 1)
      })
      peer.end(sent)
      await once(own, 'close')
      expect(Buffer.concat(parts).equals(sent)).toBe(true)
    })

    test('writing and ending use the new socket', async () => {
      const { accepted, peer, server } = await connection(isUnix)
      const own = readShared(accepted, () => {})
      own.end('answer')
      expect(String((await once(peer, 'data'))[0])).toBe('answer')
      await once(own, 'close')
      expect(await new Promise((resolve) => server.getConnections((_, count) => resolve(count)))).toBe(0)
    })
  })
}

describe('other sockets are read as usual', () => {
  test('a TLS socket', async () => {
    const files = await makeCertificates('DNS:localhost')
    onTestFinished(() => files.remove())
    const server = createTlsServer({ cert: readFileSync(files.cert), key: readFileSync(files.key) })
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    const port = (server.address() as { port: number }).port
    const peer = connectTls({ port, host: '127.0.0.1', rejectUnauthorized: false })
    const [accepted] = (await once(server, 'secureConnection')) as [Socket]
    onTestFinished(() => {
      peer.destroy()
      server.close()
    })
    await expectAsEver(accepted, peer)
  })

  test('a stream that is not a socket', async () => {
    const [accepted, peer] = duplexPair()
    await expectAsEver(accepted as Socket, peer)
  })

  test('a socket whose handle lacks useUserBuffer', async () => {
    const { accepted, peer } = await connection()
    Object.assign((accepted as unknown as { _handle: object })._handle, { useUserBuffer: undefined })
    await expectAsEver(accepted, peer)
  })

  test('a socket that has been read from', async () => {
    const { accepted, peer } = await connection()
    accepted.on('data', () => {})
    await expectAsEver(accepted, peer)
  })

  async function expectAsEver(accepted: Socket, peer: Duplex) {
    const heard = new Promise<string>((resolve) => {
      expect(readShared(accepted, (chunk) => resolve(String(chunk)))).toBe(accepted)
    })
    peer.write('hello')
    expect(await heard).toBe('hello')
  }
})

test('half a request is kept while other connections are read', async () => {
  const { port, limiter } = await openHttp2()
  const peer = await RawPeer.hello(port)
  const other = await RawPeer.hello(port)
  const bytesSent = Buffer.concat([
    headers(1, REQUEST),
    data(1, ask('answer').subarray(0, 7), 0), // a message in two frames, the first of them whole
    data(1, ask('answer').subarray(7)),
  ])
  for (const cut of [20, REQUEST.length + 9 + 9 + 7, bytesSent.length - 3]) {
    limiter.requests.length = 0
    peer.frames.length = 0
    const id = cut * 2 + 1
    const bytes = Buffer.from(bytesSent)
    for (const at of [5, REQUEST.length + 14, REQUEST.length + 30]) bytes.writeUInt32BE(id, at)
    peer.send(bytes.subarray(0, cut))
    await sleep(5)
    for (const junk of [cut * 4 + 1, cut * 4 + 3]) {
      other.send(headers(junk, REQUEST), data(junk, ask('over')))
      expect(await other.outcome(junk)).toBe('answer')
    }
    peer.send(bytes.subarray(cut))
    expect(await peer.outcome(id)).toBe('answer')
    expect(limiter.requests.map(({ domain }) => domain)).toEqual(['over', 'over', 'answer'])
  }
})

test('a connection that ends makes room for another', async () => {
  const frontend = http2Frontend({ methods: createUnaryMethods(new FakeRateLimiter(), () => {}) })
  const onSocket = (socket: Socket) => frontend.accept(socket)
  const { port, stop } = await listen({ host: '127.0.0.1', port: 0, onSocket, connectionsMax: 1 })
  onTestFinished(() => {
    stop()
    frontend.close()
  })
  for (let i = 0; i < 3; i++) {
    let peer: RawPeer | undefined
    await eventually(async () => {
      peer = await RawPeer.hello(port) // closed at once while the server has not seen the end of the last one
      expect(peer.isClosed).toBe(false)
    })
    const dropped = new RawPeer(port)
    await dropped.until(() => false)
    expect([peer!.isClosed, dropped.isClosed]).toEqual([false, true])
    peer!.socket.destroy()
  }
})
