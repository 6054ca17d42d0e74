import { Piscina } from 'piscina'
import { expect, onTestFinished, test } from 'vitest'
import type { EvaluationTask } from '../../../monitor/evaluation/job.ts'
import type { Write } from '../../../monitor/storage/rows.ts'
import { openStore } from '../../../monitor/storage/store.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { catalogueSite, NOW_SEC, probe } from '../storage/stores.ts'

test('a job beside the running store evaluates the stored probes, and the store publishes the result', async () => {
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openStore({ path, log: () => {} })
  const jobs = new Piscina<EvaluationTask, Write[]>({
    filename: new URL('../../../monitor/evaluation/job.ts', import.meta.url).href,
    maxThreads: 1,
  })
  onTestFinished(async () => {
    await jobs.destroy()
    await store.close()
  })
  const sites = [catalogueSite('site')]
  const { ids } = await store.request({ kind: 'sync-catalogue', sites, nowSec: NOW_SEC })
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  store.write({ kind: 'probe', siteId: ids.site, vantageId, probe: probe(NOW_SEC - 5) })
  await store.flush()
  const task = { path, nowSec: NOW_SEC, intervalSec: 300, ownVantage: 'main' }
  for (const write of await jobs.run(task)) store.write(write)
  await store.flush()
  await store.tick(NOW_SEC + 10)
  expect(store.snapshot.sites).toMatchObject([
    { slug: 'site', tier: 'B', regions: { overseas: { state: 'reachable' }, cn: { state: 'unknown' } } },
  ])
})

test('a file that is not there is an error that names it', async () => {
  const { default: evaluate } = await import('../../../monitor/evaluation/job.ts')
  const path = `${makeMemoryFolder()}/none.db`
  const task = { path, nowSec: NOW_SEC, intervalSec: 300, ownVantage: null }
  expect(() => evaluate(task)).toThrow(path)
})
