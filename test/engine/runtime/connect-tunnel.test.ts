import { once } from 'node:events'
import { type AddressInfo, connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { sendConnect } from '../../../engine/runtime/connect-tunnel.ts'

/** A proxy that reads one request head and sends `response`; null = nothing. */
async function connectToProxy(response: string | null) {
  let head = ''
  const server = createServer((socket) => {
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      head += bytes
      if (head.endsWith('\r\n\r\n') && response !== null) socket.write(response)
    })
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const socket = connect((server.address() as AddressInfo).port, '127.0.0.1')
  await once(socket, 'connect')
  onTestFinished(() => {
    socket.destroy()
    server.close()
  })
  return { socket, head: () => head }
}

function send(
  socket: Socket,
  { authorization = null as string | null, signal = new AbortController().signal } = {},
) {
  return sendConnect(socket, { authority: 'target.example:443', authorization, headBytesMax: 1_000, signal })
}

test('5.8: the request names the target and stays on the connection', async () => {
  const { socket, head } = await connectToProxy('HTTP/1.1 200 OK\r\n\r\n')
  expect(await send(socket, { authorization: 'Basic abc' })).toBe(200)
  expect(head().split('\r\n')).toEqual([
    'CONNECT target.example:443 HTTP/1.1',
    'host: target.example:443',
    'connection: keep-alive',
    'proxy-authorization: Basic abc',
    '',
    '',
  ])
})

test('5.8: without credentials there is no Proxy-Authorization', async () => {
  const { socket, head } = await connectToProxy('HTTP/1.1 200 OK\r\n\r\n')
  await send(socket)
  expect(head()).not.toContain('authorization')
})

test('5.8: bytes of the target in the packet of the response are read from the socket', async () => {
  const { socket } = await connectToProxy('HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nearly')
  await send(socket)
  expect(String((await once(socket, 'data'))[0])).toBe('early')
})

for (const status of [101, 204, 302, 407, 503]) {
  test(`5.8: the status ${status} is returned`, async () => {
    const { socket } = await connectToProxy(`HTTP/1.1 ${status} Text\r\n\r\n`)
    expect(await send(socket)).toBe(status)
  })
}

for (const [what, response] of [
  ['not HTTP', 'SSH-2.0-server\r\n\r\n'],
  ['a head beyond its bound', `HTTP/1.1 200 OK\r\nx: ${'a'.repeat(2_000)}\r\n\r\n`],
]) {
  test(`5.8: ${what}: rejects and destroys the socket`, async () => {
    const { socket } = await connectToProxy(response)
    await expect(send(socket)).rejects.toThrow()
    expect(socket.destroyed).toBe(true)
  })
}

test('5.8: a proxy that closes the connection: rejects', async () => {
  const { socket } = await connectToProxy(null)
  const sent = send(socket)
  socket.destroy()
  await expect(sent).rejects.toThrow('socket hang up')
})

test('5.8: without a response it rejects with the reason of the signal, also if it is already aborted', async () => {
  for (const isBefore of [false, true]) {
    const { socket } = await connectToProxy(null)
    const controller = new AbortController()
    const reason = new Error('deadline')
    if (isBefore) controller.abort(reason)
    const sent = send(socket, controller)
    controller.abort(reason)
    await expect(sent).rejects.toBe(reason)
    expect(socket.destroyed).toBe(true)
  }
})
