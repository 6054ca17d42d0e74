/**
 * Load by h2load, the generator of nghttp2, which shares no code with the service: every gRPC request is answered, and the
 * counts of h2load, of the limit and of /stats agree. exactness.test.ts does the same on /json with autocannon.
 */
import { execFile } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { expect, test } from 'vitest'
import { startService } from '../helpers/service.ts'
import { size } from '../helpers/size.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const REQUESTS = size({ small: 2_000, full: 200_000 })
const LIMIT = REQUESTS / 4
const CONNECTIONS = 4
const STREAMS = 16 // per connection
const METHOD = '/envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit'

// A gRPC message as protoc encodes it: not compressed, 23 bytes, domain "load", one descriptor: user = alice.
const GRPC_REQUEST = Buffer.from('0000000017' + '0a046c6f6164' + '120f0a0d0a04757365721205616c696365', 'hex')
const RULES = `domain: load\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: ${LIMIT} } }]\n`

test('h2load: every gRPC request is answered and counted once', async () => {
  const service = await startService({
    rules: { 'load.yaml': RULES },
    env: { BACKEND_TYPE: 'memory', WORKERS: '2' },
    frontend: 'http2',
  })
  const body = join(makeTemporaryFolder(), 'request')
  writeFileSync(body, GRPC_REQUEST)
  const load = ['-n', REQUESTS, '-c', CONNECTIONS, '-m', STREAMS, '-d', body].map(String)
  const headers = ['-H', 'content-type: application/grpc', '-H', 'te: trailers']
  const url = `http://${service.address('gRPC')}${METHOD}`
  const { stdout } = await promisify(execFile)('h2load', [...load, ...headers, url])
  expect(stdout).toContain(
    `requests: ${REQUESTS} total, ${REQUESTS} started, ${REQUESTS} done, ${REQUESTS} succeeded, 0 failed, 0 errored, 0 timeout`,
  )
  expect(stdout).toContain(`status codes: ${REQUESTS} 2xx, 0 3xx, 0 4xx, 0 5xx`)
  const [, dataBytes] = /\((\d+)\) data/.exec(stdout)!
  expect(Number(dataBytes)).toBeGreaterThan(REQUESTS * 5) // a gRPC message in each response, not an error without one
  const stats = await service.stats()
  const read = (name: string) => stats[`ratelimit.service.rate_limit.load.user.${name}`]
  expect(read('total_hits')).toBe(REQUESTS)
  expect(read('within_limit')).toBe(LIMIT)
  expect(read('over_limit')).toBe(REQUESTS - LIMIT)
})
