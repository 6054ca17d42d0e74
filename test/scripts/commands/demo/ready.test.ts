/** The demo waits for its monitor, but not for ever. */
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { waitUntilReady } from '../../../../scripts/commands/demo/ready.ts'

async function serve(listener: RequestListener): Promise<string> {
  const server = createServer(listener).listen(0, '127.0.0.1')
  onTestFinished(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server, 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/readyz`
}

test('a monitor that becomes ready is waited for', async () => {
  let asked = 0
  const url = await serve((_, response) => response.writeHead(++asked < 3 ? 503 : 200).end())
  expect(await waitUntilReady(url, () => false)).toBe(true)
  expect(asked).toBe(3)
})

test('a request without a response is given up, and asked again', async () => {
  let asked = 0
  const url = await serve((_, response) => {
    if (++asked > 1) response.end()
  })
  expect(await waitUntilReady(url, () => false, { fetchMsMax: 500 })).toBe(true)
})

test('beyond the bound the error says where, and what to do', async () => {
  const url = await serve((_, response) => response.writeHead(503).end())
  await expect(waitUntilReady(url, () => false, { msMax: 0 })).rejects.toThrow(
    `${url}: the monitor is not ready after 0 s. See its log above; if this machine is busy, try again with --days 3. [DEMO_NOT_READY]`,
  )
})

test('the end of the demo ends the wait', async () => {
  let asked = 0
  const url = await serve((_, response) => {
    asked++
    response.writeHead(503).end()
  })
  expect(await waitUntilReady(url, () => asked === 2)).toBe(false)
  expect(asked).toBe(2)
})
