import { expect, test } from 'vitest'
import { Stats } from '../../../engine/stats/stats.ts'
import { Metrics } from '../../../monitor/service/metrics.ts'

test('quota failures exist with 0 before the first, so that increase() counts it', () => {
  const stats = new Stats()
  const metrics = new Metrics(stats)
  const kinds = ['read', 'submit', 'page'] as const
  const { names, values } = stats.takeDeltas()
  expect(names).toEqual(kinds.map((kind) => `sluice.monitor.quota_failures.${kind}`))
  expect(values).toEqual([0, 0, 0])
  metrics.quotaFailed('submit')
  expect(stats.takeDeltas()).toMatchObject({ names: ['sluice.monitor.quota_failures.submit'], values: [1] })
})
