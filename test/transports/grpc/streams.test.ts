/**
 * Streams of every gRPC frontend, over real sockets: messages in both directions, all kinds of ends, a client that does not read.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { status } from '@grpc/grpc-js'
import { beforeEach, describe, expect, test } from 'vitest'
import {
  DRAIN_MESSAGE,
  type GrpcFrontendOptions,
  type StreamCall,
  type StreamHandler,
  type StreamMethod,
} from '../../../transports/grpc/frontend.ts'
import { Status } from '../../../transports/grpc/status.ts'
import { eventually } from '../../helpers/eventually.ts'
import { FRONTENDS, newClient, openPort, Stream, unary } from './open-port.ts'

const ECHO = '/test.Test/Echo'
const bytes = (text: string) => new TextEncoder().encode(text)

/** Echoes messages; `refuse` and `end` end the stream. Records its callbacks in `events`. */
class Echo implements StreamMethod {
  readonly path = ECHO
  readonly calls: StreamCall[] = []
  readonly events: string[] = []

  open(call: StreamCall) {
    this.calls.push(call)
    return {
      message: (request: Uint8Array) => {
        const text = new TextDecoder().decode(request)
        this.events.push(text)
        if (text === 'refuse') call.refuse(Status.NotFound, '50 % \ud800 é')
        else if (text === 'end') call.end()
        else call.send(Uint8Array.from(request)) // copied: the bytes belong to the frontend
      },
      halfClosed: () => {
        this.events.push('half closed')
        call.end()
      },
      writable: () => this.events.push('writable'),
      closed: () => this.events.push('closed'),
    }
  }

  /** Resolves when it has events `text`. */
  async receives(text: string): Promise<void> {
    await eventually(() => expect(this.events).toContain(text))
  }
}

for (const [name, make] of Object.entries(FRONTENDS)) {
  describe(name, () => {
    let echo: Echo
    let called: string[]
    const start = (options: Partial<GrpcFrontendOptions> = {}) =>
      openPort(make, {
        methods: [],
        streams: [echo],
        getMetrics: (method) => ({ onStart: () => called.push(method), onEnd: () => {} }),
        ...options,
      })
    beforeEach(() => {
      echo = new Echo()
      called = []
    })

    test('messages pass in both directions, in order, until the client half-closes', async () => {
      const { client } = await start()
      const stream = new Stream(client, ECHO).send(bytes('one'))
      expect(String(await stream.next())).toBe('one')
      stream.send(bytes('two')).send(bytes('')).end()
      expect(String(await stream.next())).toBe('two')
      expect((await stream.next())?.length).toBe(0)
      expect(await stream.ending()).toEqual([status.OK, 'OK'])
      expect(echo.events).toEqual(['one', 'two', '', 'half closed', 'closed'])
    })

    test('5.5: streams are not counted as calls', async () => {
      const { client } = await start()
      await new Stream(client, ECHO).end().ending()
      expect(called).toEqual([])
    })

    test('a unary client of a stream method is served', async () => {
      const { client } = await start()
      expect(String(await unary(client, ECHO, bytes('one')))).toBe('one')
    })

    test('a service can send at any time, before and after the client half-closes', async () => {
      const open = (call: StreamCall): StreamHandler => {
        call.send(bytes('first'))
        return { message() {}, halfClosed: () => call.send(bytes('last')), writable() {}, closed() {} }
      }
      const { client } = await start({ streams: [{ path: ECHO, open }] })
      const stream = new Stream(client, ECHO)
      expect(String(await stream.next())).toBe('first')
      stream.end()
      expect(String(await stream.next())).toBe('last')
      stream.cancel()
    })

    test('a service can end it while the client sends, and receives no more', async () => {
      const { client } = await start()
      const stream = new Stream(client, ECHO).send(bytes('one')).send(bytes('end')).send(bytes('two'))
      expect(String(await stream.next())).toBe('one')
      expect(await stream.ending()).toEqual([status.OK, 'OK'])
      expect(echo.events).toEqual(['one', 'end', 'closed'])
      echo.calls[0].refuse(Status.Internal, 'too late') // none of these does anything
      echo.calls[0].end()
      expect(echo.calls[0].send(bytes('too late'))).toBe(true)
      expect(String(await unary(client, ECHO, bytes('still here')))).toBe('still here')
    })

    test('a refusal arrives with its message, after the queued messages', async () => {
      const { client } = await start()
      const stream = new Stream(client, ECHO).send(bytes('one')).send(bytes('refuse'))
      expect(String(await stream.next())).toBe('one')
      expect(await stream.ending()).toEqual([status.NOT_FOUND, '50 % \ufffd é'])
      expect(echo.events.at(-1)).toBe('closed')
    })

    test('a cancel is reported once', async () => {
      const { client } = await start()
      const stream = new Stream(client, ECHO).send(bytes('one'))
      await stream.next()
      stream.cancel()
      await echo.receives('closed')
      echo.calls[0].send(bytes('too late'))
      expect(String(await unary(client, ECHO, bytes('two')))).toBe('two')
      const events = echo.events.filter((each) => each !== 'half closed') // some libraries report a cancel as that, too
      expect(events).toEqual(['one', 'closed', 'two', 'closed'])
    })

    test('a connection that breaks closes its streams and no others', async () => {
      const { client, address } = await start()
      const other = newClient(address)
      const lost = new Stream(other, ECHO).send(bytes('lost'))
      const kept = new Stream(client, ECHO).send(bytes('kept'))
      await Promise.all([lost.next(), kept.next()])
      other.close()
      lost.cancel()
      await echo.receives('closed')
      kept.send(bytes('more'))
      expect(String(await kept.next())).toBe('more')
    })

    test('a deadline closes it', async () => {
      const { client } = await start()
      const stream = new Stream(client, ECHO, { deadline: Date.now() + 1_500 }).send(bytes('one')) // connects in it
      expect((await stream.ending())[0]).toBe(status.DEADLINE_EXCEEDED)
      await echo.receives('closed')
    })

    test('a client that does not read is not read from; no message is lost', async () => {
      const { client } = await start()
      const count = 1_000 // of 4 KiB: far more than windows and socket buffers hold
      const message = Buffer.alloc(4 * 1024)
      const stream = new Stream(client, ECHO)
      for (let i = 0; i < count; i++) {
        message.writeUInt32BE(i)
        stream.send(message)
      }
      stream.end()
      expect((await stream.next())?.readUInt32BE()).toBe(0) // this library reads everything until it is asked once
      let before = -1
      while (before !== echo.events.length) {
        before = echo.events.length
        await sleep(100)
      }
      expect(before).toBeGreaterThan(0)
      expect(before).toBeLessThan(count / 2)
      for (let i = 1; i < count; i++) expect((await stream.next())?.readUInt32BE()).toBe(i)
      expect(await stream.ending()).toEqual([status.OK, 'OK'])
      expect(echo.events).toContain('writable')
    })

    test('Q16: a drain ends streams at once, after their queued messages', async () => {
      const { client, frontend } = await start()
      const stream = new Stream(client, ECHO).send(bytes('one'))
      await echo.receives('one')
      echo.calls[0].send(bytes('last'))
      const drained = frontend.drain(10_000)
      expect(String(await stream.next())).toBe('one')
      expect(String(await stream.next())).toBe('last')
      expect(await stream.ending()).toEqual([status.UNAVAILABLE, DRAIN_MESSAGE])
      await drained
      expect(echo.events).toEqual(['one', 'closed'])
    })

    test('Q16: a stream whose client does not read does not delay a drain beyond its timeout', async () => {
      const { client, frontend } = await start()
      const stream = new Stream(client, ECHO).send(bytes('one'))
      await stream.next()
      while (echo.calls[0].send(Buffer.alloc(64 * 1024))) await sleep(0)
      await frontend.drain(200) // the test would time out
      expect((await stream.ending())[0]).not.toBe(status.OK)
    })
  })
}
