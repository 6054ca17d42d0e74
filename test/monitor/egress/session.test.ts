/** Connections kept for a probe: which are taken again, and that every other one is closed. */
import { expect, test } from 'vitest'
import type { HttpConnection } from '../../../monitor/egress/http-connection.ts'
import { LIMITS } from '../../../monitor/egress/limits.ts'
import { type Connection, Session } from '../../../monitor/egress/session.ts'

function createConnection(isIdle = true): Connection & { closed(): boolean } {
  let isClosed = false
  const http = { isIdle, close: () => (isClosed = true) } as unknown as HttpConnection
  return {
    http,
    certificate: null,
    addresses: [],
    hasIpv6: false,
    remoteAddress: null,
    closed: () => isClosed,
  }
}

test('a kept connection is taken once, by its origin', () => {
  const session = new Session()
  const connection = createConnection()
  session.keep('https://a.example', connection)
  expect(session.take('https://b.example')).toBeUndefined()
  expect(session.take('https://a.example')).toBe(connection)
  expect(session.take('https://a.example')).toBeUndefined()
  expect(connection.closed()).toBe(false)
})

test('one that is not idle any more is closed', () => {
  const session = new Session()
  const connection = createConnection(false)
  session.keep('https://a.example', connection)
  expect(session.take('https://a.example')).toBeUndefined()
  expect(connection.closed()).toBe(true)
})

test('a second one of an origin closes the first', () => {
  const session = new Session()
  const [first, second] = [createConnection(), createConnection()]
  session.keep('https://a.example', first)
  session.keep('https://a.example', second)
  expect([first.closed(), second.closed()]).toEqual([true, false])
  expect(session.take('https://a.example')).toBe(second)
})

test('of too many the oldest is closed', () => {
  const session = new Session()
  const all = Array.from({ length: LIMITS.sessionConnections + 2 }, () => createConnection())
  for (const [i, connection] of all.entries()) session.keep(`https://${i}.example`, connection)
  expect(all.map((connection) => connection.closed())).toEqual(all.map((_, i) => i < 2))
})

test('a closed session closes what it has, and what comes later', () => {
  const session = new Session()
  const [kept, late] = [createConnection(), createConnection()]
  session.keep('https://a.example', kept)
  session.close()
  session.keep('https://b.example', late)
  expect([kept.closed(), late.closed()]).toEqual([true, true])
  expect([session.take('https://a.example'), session.take('https://b.example')]).toEqual([
    undefined,
    undefined,
  ])
})
