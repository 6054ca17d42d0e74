/** A real memcached without memory for new items (-M): it replies to reads and to `incr`, and refuses every `add`. */
import { once } from 'node:events'
import { connect } from 'node:net'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { NO_BREAKER } from '../../../../engine/stores/breakers.ts'
import { eventually } from '../../../helpers/eventually.ts'
import { type MemcachedServer, startMemcached } from '../../../helpers/memcached.ts'
import { shortenTimers } from '../../../helpers/shorten-timers.ts'
import { storeOn } from './harness.ts'

const OUT_OF_MEMORY = 'SERVER_ERROR out of memory storing object'
const PERIOD_MS = 1_000 // between probes of failing nodes, and between reports
const ITEMS_PER_WRITE = 10_000
const ITEMS_MAX = 500_000

beforeEach(() => shortenTimers(PERIOD_MS, 20))

/**
 * A server with the counter `old` whose memory for short keys is full, and a store on it. Without memcached's own threads for its
 * lists: while one of them holds `old`, its `incr` needs a new item, and is refused, too.
 */
async function startFull(breaker = {}) {
  const memcached = await startMemcached({
    args: ['-M', '-m', '2', '-o', 'no_lru_maintainer,no_lru_crawler'],
  })
  onTestFinished(() => memcached.stop())
  const on = storeOn([memcached.address], { breaker: { ...NO_BREAKER, probeIntervalMs: 20, ...breaker } })
  onTestFinished(() => on.store.close())
  await on.store.connect()
  await on.add([['old', 1]])
  await eventually(() => expect(on.stats()['add.__code=success']).toBe(1))
  await fill(memcached)
  return { memcached, on }
}

/** Adds items until one is refused. */
async function fill({ port }: MemcachedServer): Promise<void> {
  const socket = connect(port, '127.0.0.1').setEncoding('latin1')
  for (let first = 0; first < ITEMS_MAX; first += ITEMS_PER_WRITE) {
    let commands = ''
    for (let i = first; i < first + ITEMS_PER_WRITE; i++) commands += `set f${i} 0 0 1\r\n1\r\n`
    socket.write(`${commands}mn\r\n`)
    let replies = ''
    while (!replies.endsWith('MN\r\n')) replies += (await once(socket, 'data'))[0]
    if (!replies.includes(OUT_OF_MEMORY)) continue
    socket.destroy()
    return
  }
  throw new Error(`memcached stored ${ITEMS_MAX} items`)
}

async function free(memcached: MemcachedServer): Promise<void> {
  for (let i = 0; i < 100; i++) expect(await memcached.run(`delete f${i}`)).toBe('DELETED')
}

test('hits that were refused are lost, the next ones on their counter fail until it can be counted again', async () => {
  const { memcached, on } = await startFull()
  expect((await on.add([['a', 3]])).flat(), 'answered before it is added').toEqual([0])
  await eventually(() =>
    expect(on.stats()).toMatchObject({ 'add.__code=error': 1, 'sluice.store.lost_hits': 3 }),
  )
  const refused = `memcache ${memcached.address}: counter "a": ${OUT_OF_MEMORY}`
  expect(await on.add([['a', 1]], [['old', 1]])).toEqual([[refused], [1]])
  await eventually(() => expect(on.health.at(-1)).toBe('failing'))
  expect(await on.add([['old', 1]])).toEqual([[2]])
  expect(on.health.at(-1), 'still failing after a hit on another counter was counted').toBe('failing')
  await free(memcached)
  await eventually(() => expect(on.health.at(-1)).toBe('ok'))
  await eventually(async () => expect(await on.add([['a', 1]])).toEqual([[0]]))
  await on.store.close()
  expect((await memcached.read('a'))?.value).toBe('1')
  expect(on.stats()['sluice.store.lost_hits'], 'hits that failed are not lost').toBe(3)
})

test('refused hits open the circuit breaker although reads succeed; its probes write', async () => {
  const { memcached, on } = await startFull({ failuresInRow: 5 })
  const open = `the circuit breaker is open (5 trips in a row failed, the last with: ${OUT_OF_MEMORY})`
  let hits = 0
  await eventually(async () => {
    expect(await on.add([[`n${hits++}`, 1]])).toEqual([[`memcache ${memcached.address}: ${open}`]])
  })
  const probesCount = async () => Number(/STAT cmd_get (\d+)/.exec(await memcached.run('stats'))?.[1])
  const before = await probesCount()
  await eventually(async () => expect(await probesCount()).toBeGreaterThan(before + 3))
  expect((await on.add([['old', 1]])).flat()[0]).toBe(`memcache ${memcached.address}: ${open}`)
  await free(memcached)
  await eventually(async () => expect(await on.add([['old', 1]])).toEqual([[1]]))
})

test('with MEMCACHE_ERRORS_AS_ZERO such hits pass', async () => {
  const { memcached } = await startFull()
  const zero = storeOn([memcached.address], { isErrorZero: true })
  onTestFinished(() => zero.store.close())
  await zero.store.connect()
  for (let lost = 1; lost <= 3; lost++) {
    expect(await zero.add([['a', 1]])).toEqual([[0]])
    await eventually(() => expect(zero.stats()['sluice.store.lost_hits']).toBe(lost))
  }
})
