/**
 * Requests with ambiguous framing at every HTTP port of a whole service: the connection is closed, and what follows them is
 * not served. The cases and what the handler sees of them are in test/engine/runtime/http-framing.test.ts.
 */
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CHUNKED_BAD, HEADERS_BAD, HEADERS_GOOD } from '../engine/runtime/framings.ts'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import type { RunningService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const STARTED = [MONITOR_LISTENS, "Listening for agents on '", "Listening for Prometheus on '"]

// Paths with an immediate response: after a response that waits, the library closes the connection by itself.
// biome-ignore format: a table
const PORTS: [name: string, path: string, nextPath: string, chunked: string][] = [
  // path of the request, path of the next one, status of a valid chunked request
  ['HTTP',        '/json',              '/healthcheck',   '400 Bad Request'], // not JSON
  ['debug',       '/',                  '/debug/pprof/',  '400 Bad Request'],
  ['Prometheus',  '/nothing',           '/nothing',       '400 Bad Request'],
  ['the monitor', '/api/v1/detections', '/healthz',       '415 Unsupported Media Type'],
  ['agents',      '/agent/v1/poll',     '/agent/v1/poll', '401 Unauthorized'],
]
const REFUSED = [[], ['400 Bad Request'], ['505 HTTP Version Not Supported']] // no response, or that of the library

let service: RunningService

beforeAll(async () => {
  const folder = makeTemporaryFolder()
  writeFileSync(join(folder, 'catalogue.yaml'), 'version: 1\nsites: []\n')
  service = spawnMonitor({
    folder,
    rules: quotas(),
    env: {
      AGENT_ADDR: '127.0.0.1:0',
      USE_PROMETHEUS: 'true',
      PROMETHEUS_ADDR: '127.0.0.1:0',
      DISABLE_STATS: 'false',
      USE_STATSD: 'false',
      PROBER_ENABLED: 'false',
      LOG_LEVEL: 'info',
    },
  })
  for (const line of STARTED) await service.logged(line)
})

afterAll(async () => {
  await service?.stop('SIGKILL')
})

/** Statuses of all responses, and `closed`: until the service closes the connection or has sent two responses. */
async function exchange(name: string, bytes: string): Promise<string[]> {
  const port = Number(service.address(name).split(':').at(-1))
  const socket = connect(port, '127.0.0.1')
  let text = ''
  const statuses = () => [...text.matchAll(/HTTP\/1\.1 ([^\r]+)\r\n/g)].map(([, status]) => status)
  const done = new Promise<void>((resolve) => {
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
      if (statuses().length === 2) resolve()
    })
    socket.once('close', () => resolve())
  })
  socket.on('error', () => {}) // a reset closes it, too
  await once(socket, 'connect')
  socket.write(bytes, 'latin1')
  await done
  const isClosed = socket.closed
  socket.destroy()
  return isClosed ? [...statuses(), 'closed'] : statuses()
}

test('the table has every port of the service except gRPC', () => {
  const listening = [...service.log.matchAll(/Listening for (.+?) on '/g)].map(([, name]) => name)
  expect(listening.filter((name) => name !== 'gRPC').sort()).toEqual(PORTS.map(([name]) => name).sort())
})

describe.each(PORTS)('%s', (port, path, nextPath, chunked) => {
  const post = (head: string, body: string) =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n${body}`
  const next = `GET ${nextPath} HTTP/1.1\r\nHost: localhost\r\n\r\n`
  const TE = 'Transfer-Encoding: chunked\r\n'

  test('RFC 9112 6.3: no request with ambiguous framing is served, nor what follows it', async () => {
    for (const [name, head, body] of HEADERS_BAD) {
      const responses = await exchange(port, post(head, body) + next)
      expect(REFUSED, name).toContainEqual(responses.slice(0, -1))
      expect(responses.at(-1), name).toBe('closed')
    }
  })

  test('RFC 9112 7.1: nothing is served after invalid chunks', async () => {
    for (const [name, body] of CHUNKED_BAD) {
      const responses = await exchange(port, post(TE, body) + next)
      expect(REFUSED, name).toContainEqual(responses.slice(0, -1))
      expect(responses.at(-1), name).toBe('closed')
    }
  })

  test('RFC 9112 7.1: a chunked request is the last on its connection', async () => {
    expect(await exchange(port, post(TE, '1\r\n{\r\n0\r\n\r\n'))).toEqual([chunked, 'closed'])
  })

  test('RFC 9112 6.3: others leave the connection open', async () => {
    for (const [name, head, body] of HEADERS_GOOD) {
      const responses = await exchange(port, post(head, body) + next)
      expect(responses.length, name).toBe(2)
      expect(responses, name).not.toContain('closed')
    }
  })
})
