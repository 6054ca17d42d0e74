import { expect, onTestFinished, test, vi } from 'vitest'
import { Evaluations } from '../../../monitor/service/evaluations.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { catalogueSite, NOW_SEC, openTestStore, probe } from '../storage/stores.ts'

test('7.2: a new site is evaluated 2 s after its first probe, all sites every 5 minutes', async () => {
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout', 'setInterval', 'clearInterval'] })
  onTestFinished(() => void vi.useRealTimers())
  const path = `${makeMemoryFolder()}/monitor.db`
  const store = await openTestStore({ path })
  const { ids } = await store.request({
    kind: 'sync-catalogue',
    sites: [catalogueSite('one')],
    nowSec: NOW_SEC,
  })
  const vantageId = await store.request({ kind: 'vantage', name: 'main', region: 'overseas', country: null })
  const log: string[] = []
  let nowSec = NOW_SEC
  const evaluations = new Evaluations({
    ...{ store, path, intervalSec: 3_600, ownVantage: 'main', nowSec: () => nowSec },
    log: (_, text) => log.push(text),
  })
  onTestFinished(() => evaluations.close())
  evaluations.start()
  const computedAtSec = async () => {
    const flushed = store.flush()
    await vi.advanceTimersByTimeAsync(250) // the writer's batch
    await flushed
    const [score] = await store.read('scores')
    return (score?.facts as { computedAtSec: number } | undefined)?.computedAtSec
  }

  store.write({ kind: 'probe', siteId: ids.one, vantageId, probe: probe(NOW_SEC - 5) })
  evaluations.probed(ids.one)
  await vi.advanceTimersByTimeAsync(2_000)
  await eventually(async () => expect(await computedAtSec()).toBe(NOW_SEC))
  nowSec += 300
  await vi.advanceTimersByTimeAsync(300_000)
  await eventually(async () => expect(await computedAtSec()).toBe(NOW_SEC + 300))
  expect(log).toEqual([])
})
