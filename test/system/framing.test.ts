/**
 * Every HTTP port of a whole service, asked by requests whose end is not clear: the connection ends, and what stands behind
 * them is not served. The cases and what the handler sees of them are in test/engine/runtime/http-framing.test.ts.
 */
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CHUNKED_BAD, HEADERS_BAD, HEADERS_GOOD } from '../engine/runtime/framings.ts'
import { MONITOR_LISTENS, quotas, spawnMonitor } from '../helpers/monitor.ts'
import type { RunningService } from '../helpers/service.ts'

const START_MAX_MS = 60_000
const STARTED = [MONITOR_LISTENS, "Listening for agents on '", "Listening for Prometheus on '"]

// Paths that are answered at once: behind an answer that waits, the library closes the connection by itself.
// biome-ignore format: a table
const PORTS: [name: string, path: string, behind: string, chunked: string][] = [
  // path that takes the request, path of the one behind it, the answer to a good chunked body
  ['HTTP',        '/json',              '/healthcheck',   '400 Bad Request'], // no JSON
  ['debug',       '/',                  '/debug/pprof/',  '400 Bad Request'],
  ['Prometheus',  '/nothing',           '/nothing',       '400 Bad Request'],
  ['the monitor', '/api/v1/detections', '/healthz',       '415 Unsupported Media Type'],
  ['agents',      '/agent/v1/poll',     '/agent/v1/poll', '401 Unauthorized'],
]
const REFUSED = [[], ['400 Bad Request'], ['505 HTTP Version Not Supported']] // nothing, or what the library says

let folder: string
let service: RunningService

beforeAll(async () => {
  folder = mkdtempSync(join(tmpdir(), 'sluice-framing-'))
  writeFileSync(join(folder, 'catalogue.yaml'), 'version: 1\nsites: []\n')
  service = spawnMonitor({
    ...{ folder, rules: quotas() },
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
  for (const line of STARTED) await service.logged(line, START_MAX_MS)
}, 2 * START_MAX_MS)

afterAll(async () => {
  await service?.stop()
  rmSync(folder, { recursive: true, force: true })
})

/** All that comes back: until the other side closes, or until two requests have been answered. */
async function exchange(name: string, bytes: string): Promise<string[]> {
  const port = Number(service.address(name).split(':').at(-1))
  const socket = connect(port, '127.0.0.1')
  let text = ''
  const answers = () => [...text.matchAll(/HTTP\/1\.1 ([^\r]+)\r\n/g)].map(([, status]) => status)
  const done = new Promise<void>((resolve) => {
    socket.setEncoding('latin1').on('data', (chunk) => {
      text += chunk
      if (answers().length === 2) resolve()
    })
    socket.once('close', () => resolve())
  })
  socket.on('error', () => {}) // a reset is an end, too
  await once(socket, 'connect')
  socket.write(bytes, 'latin1')
  await done
  const isClosed = socket.closed
  socket.destroy()
  return isClosed ? [...answers(), 'closed'] : answers()
}

test('the table above has every port of the service but that of gRPC', () => {
  const listening = [...service.log.matchAll(/Listening for (.+?) on '/g)].map(([, name]) => name)
  expect(listening.filter((name) => name !== 'gRPC').sort()).toEqual(PORTS.map(([name]) => name).sort())
})

describe.each(PORTS)('%s', (name, path, behind, chunked) => {
  const post = (head: string, body: string) =>
    `POST ${path} HTTP/1.1\r\nHost: localhost\r\n${head}\r\n${body}`
  const next = `GET ${behind} HTTP/1.1\r\nHost: localhost\r\n\r\n`
  const TE = 'Transfer-Encoding: chunked\r\n'

  test('RFC 9112 6.3: none of the requests whose end is not clear, nor what is behind them', async () => {
    for (const [what, head, body] of HEADERS_BAD) {
      const answers = await exchange(name, post(head, body) + next)
      expect(REFUSED, what).toContainEqual(answers.slice(0, -1))
      expect(answers.at(-1), what).toBe('closed')
    }
  })

  test('RFC 9112 7.1: nothing behind chunks', async () => {
    for (const [what, body] of CHUNKED_BAD) {
      const answers = await exchange(name, post(TE, body) + next)
      expect(REFUSED, what).toContainEqual(answers.slice(0, -1))
      expect(answers.at(-1), what).toBe('closed')
    }
  })

  test('RFC 9112 7.1: a chunked request is the last on its connection', async () => {
    expect(await exchange(name, post(TE, '1\r\n{\r\n0\r\n\r\n'))).toEqual([chunked, 'closed'])
  })

  test('RFC 9112 6.3: others leave the connection open', async () => {
    for (const [what, head, body] of HEADERS_GOOD) {
      const answers = await exchange(name, post(head, body) + next)
      expect(answers.length, what).toBe(2)
      expect(answers, what).not.toContain('closed')
    }
  })
})
