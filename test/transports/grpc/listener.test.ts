import { once } from 'node:events'
import { existsSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { connect, createServer } from 'node:net'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { beforeEach, describe, expect, test } from 'vitest'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { canSharePort, listen, SOCKET_PATH_BYTES_MAX } from '../../../transports/grpc/listener.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const HOST = '127.0.0.1'

test('a port held by another program is reported in one line', async () => {
  const stranger = createServer().listen(0, HOST)
  await once(stranger, 'listening')
  const { port } = stranger.address() as { port: number }
  const error = await listen({ host: HOST, port, onSocket: () => {} }).catch((error) => error)
  expect(error).toBeInstanceOf(ConfigurationError)
  expect(error.message).toBe(
    `127.0.0.1:${port}: another program listens on this gRPC port. ` +
      'Stop it, or set GRPC_PORT to a free one. [PORT_IN_USE]',
  )
  stranger.close()
})

test('an address of another machine is reported in one line', async () => {
  const error = await listen({ host: '192.0.2.1', port: 0, onSocket: () => {} }).catch((error) => error)
  expect(error.message).toMatch(
    /^192\.0\.2\.1:0: cannot listen for gRPC: .*EADDRNOTAVAIL.* \[LISTEN_FAILED\]$/,
  )
})

describe('5.6: a unix socket', () => {
  let folder: string
  beforeEach(() => {
    folder = makeTemporaryFolder()
  })
  const refusal = (path: string) => listen({ path, onSocket: () => {} }).catch((error) => error)

  test('accepts connections, and its file is removed when it stops', async () => {
    const path = join(folder, 'rls.sock')
    const listener = await listen({ path, onSocket: (socket) => socket.pipe(socket) })
    expect(listener.port).toBe(0)
    const socket = connect(path)
    socket.write('a')
    expect(String((await once(socket, 'data'))[0])).toBe('a')
    listener.stop()
    expect(existsSync(path)).toBe(false)
    socket.write('b') // open connections stay
    expect(String((await once(socket, 'data'))[0])).toBe('b')
    socket.destroy()
  })

  test('its file is removed before the error of its thread is reported, so that a successor can listen', async () => {
    const path = join(folder, 'rls.sock')
    const thread = new Worker(new URL('./listening-thread.ts', import.meta.url), { workerData: path })
    await once(thread, 'message')
    expect(existsSync(path)).toBe(true)
    const threw = new Promise((resolve) => {
      thread.once('error', (error) => resolve([String(error), existsSync(path)])) // checked at once, since the file is removed later anyway
    })
    thread.postMessage('throw')
    expect(await threw).toEqual(['Error: a thread that throws', false])
  })

  test('an existing file is not touched and is reported in one line', async () => {
    const path = join(folder, 'rls.sock')
    writeFileSync(path, 'precious')
    const error = await refusal(path)
    expect(error).toBeInstanceOf(ConfigurationError)
    expect(error.message).toBe(
      `Failed to listen for gRPC on '${path}': listen EADDRINUSE: address already in use ${path}. ` +
        'Nothing is listening there: if a killed process left the file behind, remove it, ' +
        'else set GRPC_UDS to another path. [SOCKET_IN_USE]',
    )
    expect(readFileSync(path, 'utf8')).toBe('precious')
  })

  test('an invalid path is reported in one line', async () => {
    const tooLong = join(folder, 'x'.repeat(120))
    for (const [path, why] of [
      [tooLong, 'the path is too long'],
      [join(folder, 'nowhere/rls.sock'), 'listen E'],
    ]) {
      const { message } = await refusal(path)
      expect(message).toContain(`Failed to listen for gRPC on '${path}': ${why}`)
      expect(message).toMatch(/ Set GRPC_UDS to a path of at most 10\d bytes, .* \[LISTEN_FAILED\]$/)
    }
    expect(readdirSync(folder)).toEqual([])
  })

  test('the longest valid path is not truncated', async () => {
    const path = join(folder, 'x'.repeat(SOCKET_PATH_BYTES_MAX - folder.length - 1))
    const listener = await listen({ path, onSocket: () => {} })
    expect(existsSync(path)).toBe(true)
    listener.stop()
  })
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

test('beyond the limit a connection is closed at once and reported', async () => {
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

test('after stop no connection is accepted, and open ones stay', async () => {
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
