/** What one token may weigh: results beyond what is due, and of two senders. */
import { expect, test } from 'vitest'
import { NOW_SEC, result, startServer } from './setup.ts'

test('6.5: of one site and vantage no more than six results in three intervals are stored', async () => {
  const server = await startServer({ isDueOnly: true })
  const [token, other] = [await server.create('loud'), await server.create('calm')]
  server.setSites()
  const results = (count: number, everySec: number, more: object = {}) =>
    Array.from({ length: count }, (_, i) => result(i + 1, { at_s: NOW_SEC - 80_000 + everySec * i, ...more }))
  expect(await server.results(token, results(500, 1))).toMatchObject({ accepted: 500, stored: 500 })
  expect(await server.rows()).toHaveLength(6)
  expect(server.logged).toContainEqual(
    expect.stringMatching(
      /^warning: 494 writes of a batch .*: its vantage has 6 results of this site in 3 intervals already$/,
    ),
  )
  // Others, other sites, and what is due are stored; so is twice as much as that, in any order.
  const calm = [...results(10, 300), ...results(20, 150, { slug: 'other' }).reverse()]
  await server.results(
    other,
    calm.map((each, i) => ({ ...each, sequence: i + 1 })),
  )
  expect((await server.rows()).filter(({ vantage }) => vantage === 'calm')).toHaveLength(30)
  expect(server.store.metrics().refused).toBe(494)
})

test('6.5: different results of one second are logged once as two senders; repetitions are not', async () => {
  const server = await startServer({ isDueOnly: true })
  const token = await server.create('shanghai')
  server.setSites()
  const down = { outcome: 'down', error: 'tls_reset', http_status: null } as const
  const at = (sequence: number, minute: number, more = {}) =>
    result(sequence, { at_s: NOW_SEC - 300 * minute, ...more })
  await server.results(token, [at(1, 1), at(2, 2, down)])
  await server.results(token, [at(3, 1), at(4, 2, down)])
  await server.store.flush()
  expect(server.logged).toEqual([])
  await server.results(token, [at(5, 1, down), at(6, 2)])
  await server.results(token, [at(7, 1, down)])
  expect((await server.rows()).map(({ outcome }) => outcome)).toEqual(['down', 'up'])
  expect(server.logged.filter((line) => line.startsWith('error'))).toEqual([
    expect.stringMatching(/^error: vantage shanghai: different results of .* revoke it and create a new one/),
  ])
})
