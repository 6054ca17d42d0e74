import { once } from 'node:events'
import { connect, createServer } from 'node:net'
import { expect, test } from 'vitest'
import { OperatorError } from '../../../engine/errors.ts'
import { canSharePort, listen } from '../../../transports/grpc/listener.ts'

const HOST = '127.0.0.1'

test('a port held by another program is one clear line', async () => {
  const stranger = createServer().listen(0, HOST)
  await once(stranger, 'listening')
  const { port } = stranger.address() as { port: number }
  const error = await listen({ host: HOST, port, onSocket: () => {} }).catch((error) => error)
  expect(error).toBeInstanceOf(OperatorError)
  expect(error.message).toBe(
    `127.0.0.1:${port}: another program listens on this gRPC port. ` +
      'Stop it, or set GRPC_PORT to a free one. [PORT_IN_USE]',
  )
  stranger.close()
})

test('an address that is not of this machine is one clear line', async () => {
  const error = await listen({ host: '192.0.2.1', port: 0, onSocket: () => {} }).catch((error) => error)
  expect(error.message).toMatch(
    /^192\.0\.2\.1:0: cannot listen for gRPC: .*EADDRNOTAVAIL.* \[LISTEN_FAILED\]$/,
  )
})

test.runIf(canSharePort)('two listeners share a port', async () => {
  let served = 0
  const onSocket = () => served++
  const first = await listen({ host: HOST, port: 0, onSocket })
  const second = await listen({ host: HOST, port: first.port, onSocket })
  expect(second.port).toBe(first.port)
  first.stop()
  const socket = connect(second.port, HOST)
  await once(socket, 'connect')
  socket.destroy()
  second.stop()
})

test('beyond the bound a connection is closed at once and told of', async () => {
  const drops: string[] = []
  const options = { host: HOST, port: 0, onSocket: () => {}, onDrop: (why: string) => drops.push(why) }
  const listener = await listen({ ...options, connectionsMax: 1 })
  const first = connect(listener.port, HOST)
  await once(first, 'connect')
  const second = connect(listener.port, HOST)
  second.on('error', () => {})
  second.resume()
  await once(second, 'close')
  expect(drops).toEqual(['more than 1 connections are open'])
  first.destroy()
  listener.stop()
})

test('after stop nobody new gets in, and who is there stays', async () => {
  const listener = await listen({ host: HOST, port: 0, onSocket: (socket) => socket.pipe(socket) })
  const early = connect(listener.port, HOST)
  await once(early, 'connect')
  early.write('a') // accepted by the process, not only by the kernel
  await once(early, 'data')
  listener.stop()
  const late = connect(listener.port, HOST)
  expect((await once(late, 'error'))[0].code).toBe('ECONNREFUSED')
  early.write('b')
  expect(String((await once(early, 'data'))[0])).toBe('b')
  early.destroy()
})
