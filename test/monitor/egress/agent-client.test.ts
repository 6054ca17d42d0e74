/** An agent's way to its own server: one address, no redirects, an end to everything. */
import { readFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { gunzipSync, gzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import {
  AgentClient,
  type AgentClientOptions,
  agentClientFailure,
} from '../../../monitor/egress/agent-client.ts'
import { makeCertificates } from '../../helpers/certificates.ts'

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await new Promise((resolve) => server.once('listening', resolve))
  onTestFinished(() => {
    server.closeAllConnections()
    server.close()
  })
  return (server.address() as AddressInfo).port
}

const createClient = (server: string, options: Partial<AgentClientOptions> = {}) =>
  new AgentClient({ server, token: 'vt_x', version: '1.0.0', ...options })

async function startServerAndClient(
  respond: RequestListener,
  path = '',
  options: Partial<AgentClientOptions> = {},
) {
  const port = await listening(createServer(respond))
  return createClient(`http://127.0.0.1:${port}${path}`, options)
}

test('6.5: it posts JSON with its token, packed from 1 KiB, below the path of its server', async () => {
  const seen: unknown[] = []
  const client = await startServerAndClient((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk) => chunks.push(chunk))
    request.on('end', () => {
      const { authorization, 'content-encoding': encoding } = request.headers
      const bytes = Buffer.concat(chunks)
      const text = (encoding === 'gzip' ? gunzipSync(bytes) : bytes).toString()
      seen.push([request.method, request.url, authorization, encoding, JSON.parse(text)])
      response.writeHead(200, { 'content-encoding': 'gzip', 'retry-after': '7' })
      response.end(gzipSync('{"a":1}'))
    })
  }, '/below/')
  const long = { text: 'x'.repeat(2_000) }
  const response = { status: 200, retryAfterSec: 7, json: { a: 1 } }
  expect(await client.post('/agent/v1/poll', { b: 2 })).toEqual(response)
  expect(await client.post('/agent/v1/poll', long)).toEqual(response)
  expect(seen).toEqual([
    ['POST', '/below/agent/v1/poll', 'Bearer vt_x', undefined, { b: 2 }],
    ['POST', '/below/agent/v1/poll', 'Bearer vt_x', 'gzip', long],
  ])
})

test('6.5: a redirect is a response, and the token is sent nowhere else', async () => {
  let requestsCount = 0
  const elsewhere = await listening(createServer(() => requestsCount++))
  const client = await startServerAndClient((_, response) => {
    response.writeHead(307, { location: `http://127.0.0.1:${elsewhere}/` }).end()
  })
  expect((await client.post('/x', {})).status).toBe(307)
  expect(requestsCount).toBe(0)
})

const failing: [string, RequestListener, string][] = [
  ['nothing', () => {}, 'http_timeout: deadline'],
  ['half an answer', (_, response) => void response.writeHead(200).write('{'), 'http_timeout: deadline'],
  ['a connection cut', (request) => request.socket.destroy(), 'connect_reset: ECONNRESET'],
  [
    'too much, by its header',
    (_, response) => void response.writeHead(200, { 'content-length': 33 * 1_024 * 1_024 }).write('{'),
    'too_large: content length',
  ],
  [
    'too much, unpacked',
    (_, response) =>
      response.writeHead(200, { 'content-encoding': 'gzip' }).end(gzipSync(Buffer.alloc(40 * 1_024 * 1_024))),
    'too_large: ',
  ],
]
for (const [what, respond, failure] of failing) {
  test(`6.5: ${what} is a failure: ${failure}`, async () => {
    const isLate = failure.startsWith('http_timeout')
    const client = await startServerAndClient(respond, '', { callMs: isLate ? 100 : 20_000 })
    const response = await client.post('/x', {}).then(() => 'answered', agentClientFailure)
    expect(response.slice(0, failure.length)).toBe(failure)
  })
}

test('6.5: a body that is not JSON is undefined, with its status', async () => {
  const client = await startServerAndClient((_, response) =>
    response.writeHead(502, { 'retry-after': 'soon' }).end('<h1>'),
  )
  expect(await client.post('/x', {})).toEqual({ status: 502, retryAfterSec: 0, json: undefined })
})

test('6.5: closing aborts a running call', async () => {
  const client = await startServerAndClient(() => {})
  const closing = new AbortController()
  const response = client.post('/x', {}, closing.signal).then(() => 'answered', agentClientFailure)
  closing.abort()
  expect(await response).toBe('http_timeout: given up')
})

test('6.5: an untrusted certificate is refused, one of the operator’s authority is accepted', async () => {
  const certificates = await makeCertificates('IP:127.0.0.1')
  onTestFinished(() => certificates.remove())
  const [cert, key, ca] = [certificates.cert, certificates.key, certificates.ca].map((path) =>
    readFileSync(path, 'utf8'),
  )
  const port = await listening(createTlsServer({ cert, key }, (_, response) => response.end('{}')))
  const server = `https://127.0.0.1:${port}`
  const strange = await createClient(server)
    .post('/x', {})
    .then(() => 'answered', agentClientFailure)
  expect(strange).toMatch(/^connect_unreachable: (UNABLE_TO|SELF_SIGNED|DEPTH)/)
  expect((await createClient(server, { ca }).post('/x', {})).status).toBe(200)
})
