/**
 * The memcached protocol: replies in any pieces, and peers that are not memcached. The test is the peer, because a real one
 * sends neither chosen pieces nor invalid replies.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { Breakers, NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import { MemcacheNode } from '../../../../engine/stores/memcached/node.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { freePort } from '../../../helpers/ports.ts'
import { advanceClock, stopClock } from '../../../helpers/stopped-clock.ts'

const TIMEOUT_MS = 10_000 // generous, so that no test reaches it by accident

let server: Server | null = null
let node: MemcacheNode
let lost: string[]
let received: string
afterEach(async () => {
  node.close()
  if (server?.listening) await new Promise((resolve) => server!.close(resolve))
})

/** A node whose peer calls `onRequest` with whatever arrives. */
async function startNode(onRequest: (socket: Socket, text: string) => void): Promise<MemcacheNode> {
  const port = await freePort()
  received = ''
  lost = []
  server = createServer((socket) => {
    socket.setNoDelay(true).on('error', () => {})
    socket.setEncoding('latin1').on('data', (text) => {
      received += text
      onRequest(socket, String(text))
    })
  })
  await new Promise<void>((resolve) => server!.listen(port, '127.0.0.1', resolve))
  node = new MemcacheNode({
    address: { text: `127.0.0.1:${port}`, path: '', host: '127.0.0.1', port },
    tls: null,
    breakers: new Breakers(NO_BREAKER, null, () => {}),
    timeoutMs: TIMEOUT_MS,
    onLost: (reason) => lost.push(reason),
    onBack: () => {},
    onState: () => {},
  })
  return node
}

/** Values and the last line, or the error. */
function send(command: string): Promise<string> {
  const values: string[] = []
  const isRead = command.startsWith('gets')
  return new Promise((resolve) => {
    node.send(
      `${command}\r\n`,
      (error, line) => resolve([...values, error?.message ?? line].join(' ')),
      isRead ? (key, value) => values.push(`${key}=${value}`) : null,
    )
  })
}

test('replies may arrive in any pieces', async () => {
  const reply = 'VALUE a 0 2 7\r\n12\r\nVALUE \xc3\xb6 0 7 8\r\n3\r\nEND\r\r\nEND\r\n5\r\nNOT_FOUND\r\n'
  for (const pieceLength of [1, 2, 3, 7, reply.length]) {
    await startNode(async (socket) => {
      for (let i = 0; i < reply.length; i += pieceLength) {
        socket.write(reply.slice(i, i + pieceLength), 'latin1')
        await new Promise(setImmediate)
      }
    })
    const replies = await Promise.all([send('gets a b ö'), send('incr a 1'), send('incr b 1')])
    expect(replies).toEqual(['a=12 \xc3\xb6=3\r\nEND\r END', '5', 'NOT_FOUND'])
    node.close()
    await new Promise((resolve) => server!.close(resolve))
  }
})

test('the commands of one turn are one write', async () => {
  const writes: string[] = []
  await startNode((socket, text) => {
    writes.push(text)
    socket.write('1\r\n'.repeat(text.split('\r\n').length - 1))
  })
  await send('incr first 1')
  await Promise.all([send('incr a 1'), send('incr b 1'), send('incr c 1')])
  expect(writes).toEqual(['incr first 1\r\n', 'incr a 1\r\nincr b 1\r\nincr c 1\r\n'])
})

// biome-ignore format: the columns are the specification
const invalidReplies = [
  // to `gets a`                    -> error of the command, for which the connection is closed
  ['ERROR\r\n',                        'protocol error: "ERROR"'],
  ['CLIENT_ERROR line too long\r\n',   'protocol error: "CLIENT_ERROR line too long"'],
  ['HTTP/1.1 400 Bad Request\r\n\r\n', 'protocol error: "HTTP/1.1 400 Bad Request"'],
  ['STORED\r\n',                       'protocol error: "STORED"'],
  ['VALUE a 0 x\r\n',                  'a value that was not asked for, or is too long'],
  ['VALUE a 0 1048577\r\n',            'a value that was not asked for, or is too long'],
  ['VALUE\r\n',                        'protocol error: a VALUE line'],
  ['x'.repeat(1_100_000),              'it sent a line without an end'],
  ['',                                 'no reply within 10s'],
] as const

for (const [reply, message] of invalidReplies) {
  test(`${JSON.stringify(reply.slice(0, 40))} ends the connection and all pending commands`, async () => {
    if (reply === '') stopClock()
    await startNode((socket) => socket.write(reply))
    const pending = Promise.all([send('gets a'), send('incr a 1')])
    if (reply === '') {
      await eventually(() => expect(received).not.toBe(''))
      await advanceClock(TIMEOUT_MS)
    }
    expect(await pending).toEqual([message, message])
    expect(lost).toEqual([message])
  })
}

test('an error reply fails its command only', async () => {
  await startNode((socket) =>
    socket.write('SERVER_ERROR out of memory\r\nSERVER_ERROR out of memory\r\n7\r\n'),
  )
  expect(await Promise.all([send('gets a'), send('incr a 1'), send('incr b 1')])).toEqual([
    'SERVER_ERROR out of memory',
    'SERVER_ERROR out of memory',
    '7',
  ])
  expect(lost).toEqual([])
})

test('an unexpected reply ends the connection; the next command opens a new one', async () => {
  await startNode((socket) => socket.write(received.includes('second') ? '2\r\n' : '1\r\n9\r\n'))
  expect(await send('incr first 1')).toBe('1')
  await eventually(() => expect(lost).toEqual(['unexpected reply: "9"']))
  expect(await send('incr second 1')).toBe('2')
})

test('half a reply of a lost connection is dropped', async () => {
  await startNode((socket) => {
    if (received.includes('second')) socket.write('VALUE b 0 1 1\r\n7\r\nEND\r\n')
    else socket.write('VALUE a 0 5 1\r\n12', () => socket.destroy())
  })
  expect(await send('gets first')).toBe('closed by the other side')
  expect(await send('gets second')).toBe('b=7 END')
})

test('too many commands without a reply: the next fails immediately', async () => {
  stopClock()
  await startNode(() => {})
  const waiting = Array.from({ length: 65_536 }, () => send('incr a 1'))
  expect(await send('incr a 1')).toBe('65536 commands wait for a reply')
  await eventually(() => expect(received).not.toBe(''))
  await advanceClock(TIMEOUT_MS)
  expect(new Set(await Promise.all(waiting))).toEqual(new Set(['no reply within 10s']))
})

test('an unreachable peer: the first command and those in the pause fail with the reason', async () => {
  await startNode(() => {})
  await new Promise((resolve) => server!.close(resolve))
  const { text } = node.address
  for (let i = 0; i < 2; i++) expect(await send('incr a 1')).toBe(`connect ECONNREFUSED ${text}`)
  expect(await send('incr a 1')).toBe(`no connection (connect ECONNREFUSED ${text})`)
})

test('a retired node completes pending commands and those that follow, then closes', async () => {
  let isClosed = false
  await startNode((socket, text) => {
    socket.on('close', () => {
      isClosed = true
    })
    socket.write(text.startsWith('add') ? 'STORED\r\n' : 'NOT_FOUND\r\n')
  })
  const chain = new Promise<string>((resolve) => {
    node.send('incr a 1\r\n', () => node.send('add a 0 60 1\r\n1\r\n', (_, line) => resolve(line)))
  })
  node.retire()
  expect(await chain).toBe('STORED')
  await eventually(() => expect(isClosed).toBe(true))
  expect(lost).toEqual([])
})
