/** GRPC_UDS: the service behind a unix socket. */
import { existsSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { eventually } from '../../helpers/eventually.ts'
import { GrpcClient, question } from '../../helpers/grpc.ts'
import { postJson, spawnService, startService } from '../../helpers/service.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const TIMEOUT = { timeout: 120_000 } // five processes start
const RULES = {
  'shop.yaml':
    'domain: shop\ndescriptors: [{ key: user, rate_limit: { unit: year, requests_per_unit: 9 } }]\n',
}
const USER = { domain: 'shop', descriptors: [{ entries: [{ key: 'user', value: 'alice' }] }] }

function start(path: string, env: Record<string, string> = {}) {
  return startService({ rules: RULES, env: { GRPC_UDS: path, LOG_LEVEL: 'info', ...env } })
}

/** A start that must fail. Returns its log, which is one line. */
async function startRefused(path: string): Promise<string> {
  const env = { BACKEND_TYPE: 'memory', GRPC_UDS: path }
  const { code, log } = await spawnService({ rules: RULES, env }).exited
  expect(code).toBe(1)
  expect(log.trimEnd().split('\n')).toHaveLength(1)
  return log
}

/** Adds a hit on a connection of its own. Returns what remains of the limit of 9. */
async function hit(path: string): Promise<number> {
  const client = new GrpcClient(`unix:${path}`)
  try {
    return (await client.ask(question('shop', { user: 'alice' }))).statuses[0].limitRemaining
  } finally {
    client.close()
  }
}

test(
  '5.6: two workers: one serves the socket, also after crashes; a second process is refused; a stop removes the file',
  TIMEOUT,
  async () => {
    const path = join(makeTemporaryFolder(), 'rls.sock')
    const service = await start(path, { WORKERS: '2' })
    expect(service.log).toContain(`Listening for gRPC on '${path}'`)
    expect(service.log).toContain('gRPC is answered by worker 0 alone, since a unix socket cannot be shared')
    expect(await hit(path)).toBe(8)
    expect((await postJson(service, USER)).status).toBe(200)
    expect(await hit(path)).toBe(6)

    const refusal = await startRefused(path)
    expect(refusal).toContain(
      `Failed to listen for gRPC on '${path}': listen EADDRINUSE: address already in use`,
    )
    expect(refusal).toContain(
      'A process is listening there: stop it, or set GRPC_UDS to another path. [SOCKET_IN_USE]',
    )
    let remaining = await hit(path) // the first process still has its socket
    expect(remaining).toBe(5)

    for (const crashWorker of [1, 0, 0]) {
      const endsCount = () => service.log.split(`worker ${crashWorker} ended`).length
      const before = endsCount()
      service.child.send({ crashWorker })
      await eventually(() => expect(endsCount()).toBeGreaterThan(before))
      await eventually(async () => {
        const now = await hit(path)
        expect(now).toBe(remaining - 1)
        remaining = now
      })
    }
    expect((await service.stop()).code).toBe(0)
    expect(existsSync(path)).toBe(false)
  },
)

test(
  '5.6: a single worker: the file of a killed process stops the next start, which says to remove it',
  TIMEOUT,
  async () => {
    const path = join(makeTemporaryFolder(), 'rls.sock')
    const service = await start(path)
    expect(service.log).not.toContain('cannot be shared')
    expect(await hit(path)).toBe(8)
    await service.stop('SIGKILL')
    expect(existsSync(path)).toBe(true)

    const refusal = await startRefused(path)
    expect(refusal).toContain(`Failed to listen for gRPC on '${path}':`)
    expect(refusal).toContain(
      'Nothing is listening there: if a killed process left the file behind, remove it',
    )
    expect(existsSync(path)).toBe(true) // it belongs to another process
    rmSync(path)
    await start(path)
    expect(await hit(path)).toBe(8)
  },
)
