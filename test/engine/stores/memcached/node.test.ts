/**
 * The memcached protocol: replies in any pieces, and peers that are not memcached. The test is the peer, because a real one
 * sends neither chosen pieces nor invalid replies.
 */
import { createServer, type Server, type Socket } from 'node:net'
import { afterEach, expect, test } from 'vitest'
import { Breakers, NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import { MemcacheNode, type OnEnd } from '../../../../engine/stores/memcached/node.ts'
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

/** `gets <keys>`, `incr <key> <hits>` or `add <key> <hits>`: values and the last line, or the error. */
function send(command: string): Promise<string> {
  const values: string[] = []
  const [name, ...args] = command.split(' ')
  return new Promise((resolve) => {
    const onEnd: OnEnd = (error, line) => resolve([...values, error?.message ?? line].join(' '))
    if (name === 'incr') node.incr(args[0], Number(args[1]), 60, onEnd)
    else if (name === 'add') node.add(args[0], Number(args[1]), 60, onEnd)
    else node.read(args, onEnd, (key, value) => values.push(`${key}=${value}`))
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
    const replies = await Promise.all([send('gets a b \xc3\xb6'), send('incr a 1'), send('incr b 1')])
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
  // to               reply                  -> error of the command, for which the connection is closed
  ['gets a',  'ERROR\r\n',                        'protocol error: "ERROR"'],
  ['gets a',  'CLIENT_ERROR line too long\r\n',   'protocol error: "CLIENT_ERROR line too long"'],
  ['gets a',  'HTTP/1.1 400 Bad Request\r\n\r\n', 'protocol error: "HTTP/1.1 400 Bad Request"'],
  ['gets a',  'STORED\r\n',                       'protocol error: "STORED"'],
  ['gets a',  '7\r\n',                            'protocol error: "7"'],
  ['gets a',  'VALUE\r\n',                        'protocol error: "VALUE"'],
  ['gets a',  'VALUE a 0 x\r\n',                  'unexpected value: "VALUE … 0 x"'],
  ['gets a',  'VALUE a 0 \r\n\r\nEND\r\n',        'unexpected value: "VALUE … 0 "'],
  ['gets a',  'VALUE a 0 0x2\r\n77\r\nEND\r\n',   'unexpected value: "VALUE … 0 0x2"'],
  ['gets a',  'VALUE a 0 -16\r\nEND\r\n',         'unexpected value: "VALUE … 0 -16"'], // would end where it begins
  ['gets a',  'VALUE a 0 -17\r\nEND\r\n',         'unexpected value: "VALUE … 0 -17"'],
  ['gets a',  'VALUE a 0 1e3\r\n',                'unexpected value: "VALUE … 0 1e3"'],
  ['gets a',  'VALUE a 0 1048577\r\n',            'unexpected value: "VALUE … 0 1048577"'],
  ['gets a',  'VALUE a 0 1\r\n77\r\nEND\r\n',     'a value of another length: "VALUE … 0 1"'],
  ['gets a',  'VALUE b 0 1\r\n7\r\nEND\r\n',      'a value that was not asked for: "VALUE … 0 1"'],
  ['gets a',  'VALUE a 0 1\r\n7\r\n'.repeat(2),   'a value that was not asked for: "VALUE … 0 1"'],
  ['gets a',  'x'.repeat(2_050),                  'it sent a line of more than 2048 bytes'],
  ['gets a',  '',                                 'no reply within 10s'],
  ['incr a 1', 'WHATEVER I LIKE\r\n',             'protocol error: "WHATEVER I LIKE"'],
  ['incr a 1', 'END\r\n',                         'protocol error: "END"'],
  ['incr a 1', 'STORED\r\n',                      'protocol error: "STORED"'],
  ['incr a 1', '-1\r\n',                          'protocol error: "-1"'],
  ['incr a 1', 'VALUE a 0 1\r\n7\r\n',            'unexpected value: "VALUE … 0 1"'],
  ['add a 1', 'HELLO\r\n',                        'protocol error: "HELLO"'],
  ['add a 1', '1\r\n',                            'protocol error: "1"'],
  ['add a 1', 'NOT_FOUND\r\n',                    'protocol error: "NOT_FOUND"'],
  ['add a 1', 'CLIENT_ERROR bad data chunk\r\n',  'protocol error: "CLIENT_ERROR bad data chunk"'],
] as const

for (const [command, sent, message] of invalidReplies) {
  test(`${command}: ${JSON.stringify(sent.slice(0, 40))} ends the connection and all pending commands`, async () => {
    if (sent === '') stopClock()
    await startNode((socket) => socket.write(sent))
    const pending = Promise.all([send(command), send('incr b 1')])
    if (sent === '') {
      await eventually(() => expect(received).not.toBe(''))
      await advanceClock(TIMEOUT_MS)
    }
    const [reply, next] = await pending
    expect([reply.slice(-message.length), next]).toEqual([message, message])
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
    if (received.includes('second')) socket.write('VALUE second 0 1 1\r\n7\r\nEND\r\n')
    else socket.write('VALUE first 0 5 1\r\n12', () => socket.destroy())
  })
  expect(await send('gets first')).toBe('closed by the other side')
  expect(await send('gets second')).toBe('second=7 END')
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
    node.incr('a', 1, 60, () => node.add('a', 1, 60, (_, line) => resolve(line)))
  })
  node.retire()
  expect(await chain).toBe('STORED')
  await eventually(() => expect(isClosed).toBe(true))
  expect(lost).toEqual([])
})
