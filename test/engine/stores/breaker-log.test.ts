import { expect, test } from 'vitest'
import { BreakerLog } from '../../../engine/stores/breaker-log.ts'
import { type InstanceHealth, StoreHealth } from '../../../engine/stores/store-health.ts'

const redis = (...nodes: string[]): InstanceHealth[] => [
  {
    name: 'redis',
    isConnected: true,
    working: 'ok',
    ...(nodes.length > 0 && { openBreakers: nodes.map((node) => ({ node, reason: `${node} failed` })) }),
  },
]

test('one line when the first worker opens a breaker, one when the last closes it', () => {
  const health = new StoreHealth()
  const log = new BreakerLog()
  const report = (worker: number, nodes: string[], nowMs: number) => {
    health.set(worker, redis(...nodes))
    return log.takeLines(health.instances, nowMs)
  }
  expect(report(0, [], 0)).toEqual([])
  expect(report(1, ['a', 'b'], 1_000)).toEqual([
    'the circuit breaker is open for redis, node a: a failed',
    'the circuit breaker is open for redis, node b: b failed',
  ])
  expect(report(0, ['a'], 1_100)).toEqual([])
  expect(report(1, [], 2_000)).toEqual(['the circuit breaker is closed again for redis, node b after 1s'])
  health.forget(0)
  expect(log.takeLines(health.instances, 3_500)).toEqual([
    'the circuit breaker is closed again for redis, node a after 2.5s',
  ])
  expect(report(1, ['a'], 4_000)).toEqual(['the circuit breaker is open for redis, node a: a failed'])
})

test('breakers of one node in several workers are one', () => {
  const health = new StoreHealth()
  health.set(0, redis('a'))
  health.set(1, redis('a', 'b'))
  expect(health.instances[0].openBreakers?.map(({ node }) => node)).toEqual(['a', 'b'])
  health.set(0, redis())
  health.set(1, redis())
  expect(health.instances[0]).not.toHaveProperty('openBreakers')
})
