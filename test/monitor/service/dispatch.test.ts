import { afterAll, expect, test } from 'vitest'
import { dispatch } from '../../../monitor/service/dispatch.ts'
import { openUws } from '../../../transports/uws.ts'

const state = { isReady: true }
const none = { handle: () => {} }
const port = openUws('127.0.0.1', 0, (app) =>
  app.any('/*', (res, req) => dispatch(res, req, { api: none, site: none, isReady: () => state.isReady })),
)!
afterAll(() => port.close())

const ask = async (path: string, init?: RequestInit) => {
  const { status, headers } = await fetch(`http://127.0.0.1:${port.port}${path}`, init)
  return [status, headers.get('connection')]
}

test('health checks', async () => {
  expect(await ask('/healthz')).toEqual([200, null])
  expect(await ask('/readyz')).toEqual([200, null])
  state.isReady = false
  expect(await ask('/readyz')).toEqual([503, null])
  state.isReady = true
})

test('a body that nothing reads closes the connection', async () => {
  expect(await ask('/healthz', { method: 'POST', body: 'x'.repeat(4_097) })).toEqual([200, 'close'])
})
