/**
 * A real Envoy with the configuration of examples/envoy, on other ports, and Sluice behind it.
 */
import { readFileSync } from 'node:fs'
import { expect, test } from 'vitest'
import { exampleConfig, startEnvoy } from '../helpers/envoy.ts'
import { startService } from '../helpers/service.ts'

const RULES = new URL('../../examples/config/envoy.yaml', import.meta.url)

test('Envoy responds with 200 up to the limit, then 429 with x-envoy-ratelimited', async () => {
  const rules = { 'envoy.yaml': readFileSync(RULES, 'utf8') }
  const service = await startService({ rules, env: { WORKERS: '2' } })
  const grpcPort = service.address('gRPC').split(':')[1]
  const { url } = await startEnvoy(exampleConfig().replaceAll('port_value: 8081', `port_value: ${grpcPort}`))
  const responses: Response[] = []
  for (let i = 0; i < 5; i++) responses.push(await fetch(`${url}/slow`))
  expect(responses.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429])
  expect(responses.map(({ headers }) => headers.get('x-envoy-ratelimited'))).toEqual([
    null,
    null,
    null,
    'true',
    'true',
  ])
  expect(responses.map(({ headers }) => headers.get('x-ratelimit-remaining'))).toEqual([
    '2',
    '1',
    '0',
    '0',
    '0',
  ])
  expect(await responses[0].text()).toBe('served\n')
  for (let i = 0; i < 5; i++) expect((await fetch(`${url}/fast`)).status).toBe(200)
  const stats = await service.stats()
  expect(stats['ratelimit_server.ShouldRateLimit.total_requests']).toBe(5)
  expect(stats['ratelimit.service.rate_limit.envoy.generic_key_slow.over_limit']).toBe(2)
})
