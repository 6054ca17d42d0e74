/**
 * Other requests to the two ports: paths and methods of HTTP (spec 6.1), other gRPC methods and bytes (5.1, 5.5).
 *
 *     SLUICE_REFERENCE=/path/to/ratelimit npx vitest run test/differential
 */
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { type ReceivedResponse, ServiceClient } from './client.ts'
import { type Pair, startPair } from './pair.ts'
import { ABSENT, program } from './program.ts'

const JSON_TEXT = '{"domain":"shop","descriptors":[{}]}'

// biome-ignore format: one call per row
const CALLS = [
  ['GET', '/healthcheck', ''], ['POST', '/healthcheck', 'x'], ['HEAD', '/healthcheck', ''], ['PUT', '/healthcheck', ''],
  ['GET', '/healthcheck/', ''], ['GET', '/healthcheck?a=b', ''], ['GET', '/', ''], ['GET', '/nope', ''],
  ['POST', '/json', JSON_TEXT], ['GET', '/json', JSON_TEXT], ['GET', '/json', ''], ['HEAD', '/json', ''],
  ['PUT', '/json', JSON_TEXT], ['DELETE', '/json', JSON_TEXT], ['PATCH', '/json', JSON_TEXT], ['OPTIONS', '/json', ''],
  ['POST', '/json/', JSON_TEXT], ['POST', '/json?a=b', JSON_TEXT], ['POST', '//json', JSON_TEXT],
  ['GET', '/x/../json', ''], ['GET', '/./json', ''], ['GET', '/json/..', ''], ['POST', '/JSON', JSON_TEXT],
  ['GET', '/rlconfig', ''], ['GET', '/debug/pprof/', ''],
] as const

const HEALTH = '/grpc.health.v1.Health/Check'

// biome-ignore format: one call per row
const METHODS = [
  ['/envoy.service.ratelimit.v3.RateLimitService/Nope', ''], ['/nope.Nope/Nope', ''], ['/nope', ''],
  [SHOULD_RATE_LIMIT, ''], [SHOULD_RATE_LIMIT, 'ff'], [SHOULD_RATE_LIMIT, '0a05'], [SHOULD_RATE_LIMIT, '0a02c328'],
  [SHOULD_RATE_LIMIT, '0a0464656d6f12001801'], [SHOULD_RATE_LIMIT, '7a00'], [SHOULD_RATE_LIMIT, '0a016412027801'],
  [HEALTH, ''], [HEALTH, '0a09726174656c696d6974'], [HEALTH, '0a046e6f7065'],
] as const

describe.skipIf(program === '')('beside the reference', () => {
  let pair: Pair
  let clients: ServiceClient[]
  beforeAll(async () => {
    pair = await startPair(program, {})
    clients = [new ServiceClient(pair.sluice), new ServiceClient(pair.reference)]
  })
  afterAll(async () => {
    for (const client of clients ?? []) client.close()
    await pair?.stop()
  })

  test.each(CALLS)('6.1: %s %s %s', async (method, path, body) => {
    const [sluice, reference] = await Promise.all(
      clients.map((client) => client.sendHttp(method, path, body)),
    )
    expect(sluice).toEqual(reference)
  })

  test.each(METHODS)('5.1: %s with %s', async (method, hex) => {
    const bytes = Buffer.from(hex, 'hex')
    const [sluice, reference] = await Promise.all(clients.map((client) => client.callGrpc(method, bytes)))
    expect(withoutDetails(sluice)).toEqual(withoutDetails(reference))
  })
})

/** Without the texts of library errors, which may differ; codes may not. */
function withoutDetails(response: ReceivedResponse): ReceivedResponse {
  return ['grpc 0', 'grpc 2', 'grpc 5'].includes(response.status) ? response : { ...response, body: '' }
}

test.skipIf(program !== '')(ABSENT, (context) => context.skip(ABSENT))
