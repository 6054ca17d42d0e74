/**
 * GRPC_UDS: the real service behind a unix socket.
 */
import { existsSync, mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { expect, onTestFinished, test } from 'vitest'
import { GrpcClient, question } from '../../helpers/grpc.ts'
import { postJson, spawnService, startService } from '../../helpers/service.ts'

const RULES = {
  'shop.yaml':
    'domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 9 } }]\n',
}
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

/** An unused path in a folder that is removed after the test. */
function freePath(): string {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-uds-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  return join(folder, 'rls.sock')
}

function start(path: string, env: Record<string, string> = {}) {
  return startService({ rules: RULES, env: { GRPC_UDS: path, LOG_LEVEL: 'info', ...env } })
}

/** What is left of the limit of 9 after one more hit, asked over a connection of its own. */
async function ask(path: string): Promise<number> {
  const client = new GrpcClient(`unix:${path}`)
  try {
    return (await client.ask(question('shop', { user: 'alice' }))).statuses[0].limitRemaining
  } finally {
    client.close()
  }
}

test('5.6: gRPC is served on the socket, HTTP on its port', async () => {
  const path = freePath()
  const service = await start(path, { WORKERS: '2' })
  expect(service.log).toContain(`Listening for gRPC on '${path}'`)
  expect(service.log).toContain('gRPC is answered by worker 0 alone, since a unix socket cannot be shared')
  expect(await ask(path)).toBe(8)
  expect((await postJson(service, USER)).status).toBe(200)
  expect(await ask(path)).toBe(6)
})

test('5.6: the file is removed at the end, and the next start succeeds', async () => {
  const path = freePath()
  for (let run = 0; run < 2; run++) {
    const service = await start(path)
    expect(service.log).not.toContain('cannot be shared') // with a single worker there is nothing to tell
    expect(await ask(path)).toBe(8)
    expect((await service.stop()).code).toBe(0)
    expect(existsSync(path)).toBe(false)
  }
})

test('5.6: after a crash the successor listens there again; other workers do not matter', async () => {
  const path = freePath()
  const service = await start(path, { WORKERS: '2' })
  let left = await ask(path)
  for (const crashWorker of [1, 0, 0]) {
    const ends = service.log.split(`worker ${crashWorker} ended`).length
    service.child.send({ crashWorker })
    await eventually(async () => service.log.split(`worker ${crashWorker} ended`).length > ends)
    await eventually(async () => {
      const now = await ask(path)
      expect(now).toBe(left - 1)
      left = now
      return true
    })
  }
})

test('5.6: a process that already listens there stops the start with one line', async () => {
  const path = freePath()
  const first = await start(path)
  const { code, log } = await spawnService({ rules: RULES, env: { BACKEND_TYPE: 'memory', GRPC_UDS: path } })
    .exited
  expect(code).toBe(1)
  expect(log.trimEnd().split('\n')).toHaveLength(1)
  expect(log).toContain(`Failed to listen for gRPC on '${path}': listen EADDRINUSE: address already in use`)
  expect(log).toContain(
    'A process is listening there: stop it, or set GRPC_UDS to another path. [SOCKET_IN_USE]',
  )
  expect(await ask(path)).toBe(8) // the first process still has its socket
  expect((await first.stop()).code).toBe(0)
})

test('5.6: so does the file of a killed process, and the line says to remove it', async () => {
  const path = freePath()
  await (await start(path)).stop('SIGKILL')
  expect(existsSync(path)).toBe(true)
  const { code, log } = await spawnService({ rules: RULES, env: { BACKEND_TYPE: 'memory', GRPC_UDS: path } })
    .exited
  expect(code).toBe(1)
  expect(log.trimEnd().split('\n')).toHaveLength(1)
  expect(log).toContain(`Failed to listen for gRPC on '${path}':`)
  expect(log).toContain('Nothing is listening there: if a killed process left the file behind, remove it')
  expect(existsSync(path)).toBe(true) // it belongs to another process
  rmSync(path)
  await start(path)
  expect(await ask(path)).toBe(8)
})

/** Polls until true; a rejection counts as false. Fails after 10 s. */
async function eventually(check: () => Promise<boolean>): Promise<void> {
  const until = Date.now() + 10_000
  while (!(await check().catch(() => false))) {
    if (Date.now() > until) throw new Error('it did not come true within 10 s')
    await sleep(20)
  }
}
