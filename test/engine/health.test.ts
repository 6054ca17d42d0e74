import { describe, expect, test } from 'vitest'
import { Health, type HealthComponent } from '../../engine/health.ts'

const start = (initial: Partial<Record<HealthComponent, boolean>>) => {
  const changes: boolean[] = []
  return { health: new Health(initial, (isHealthy) => changes.push(isHealthy)), changes }
}

describe('8.2: the whole is healthy when every component is', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // redis, config, sigterm -> healthy
    [  true,  true,   true,      true ],
    [  false, true,   true,      false],
    [  true,  false,  true,      false],
    [  true,  true,   false,     false],
    [  false, false,  false,     false],
  ] as const
  for (const [redis, config, sigterm, expected] of cases) {
    test(`redis ${redis}, config ${config}, sigterm ${sigterm}: ${expected}`, () =>
      expect(start({ redis, config, sigterm }).health.isHealthy).toBe(expected))
  }
})

test('8.2: one component that fails is enough at once; all must be well again', () => {
  const { health, changes } = start({ redis: false, config: false, sigterm: true })
  health.set('redis', true)
  expect(health.isHealthy).toBe(false)
  health.set('config', true)
  expect(health.isHealthy).toBe(true)
  health.set('config', false)
  health.set('redis', false)
  health.set('config', true)
  expect(health.isHealthy).toBe(false)
  health.set('redis', true)
  expect(changes).toEqual([true, false, true])
})

test('only changes of the whole are told, each once', () => {
  const { health, changes } = start({ redis: true, sigterm: true })
  health.set('redis', true)
  health.set('redis', false)
  health.set('redis', false)
  health.set('sigterm', false)
  health.set('redis', true)
  expect(changes).toEqual([false])
})

test('Q5: a component this process does not have counts for nothing', () => {
  const { health, changes } = start({ sigterm: true })
  health.set('redis', false)
  health.set('config', false)
  expect(health.isHealthy).toBe(true)
  expect(changes).toEqual([])
})
