/** Two workers on the same ports: both are served, one may crash, and a drained process ends by itself. */
import { type ChildProcess, fork } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { Client, credentials } from '@grpc/grpc-js'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { decodeResponse, encodeRequest } from '../../../proto/codec.ts'
import type { RateLimitResponse } from '../../../proto/ratelimit.ts'
import { canSharePort } from '../../../transports/grpc/listener.ts'
import { SHOULD_RATE_LIMIT } from '../../../transports/grpc/services.ts'

const HOST = '127.0.0.1'
const CONNECTIONS = 64 // that all land on one of two workers: 1 in 2^63

let child: ChildProcess
let ports: { grpc: number; http: number }

beforeEach(async () => {
  child = fork(join(import.meta.dirname, 'sharing-service.ts'), { execArgv: [] })
  const [message] = await once(child, 'message')
  ports = message.ports
})
afterEach(() => child.kill('SIGKILL'))

/** Which thread answered, on a connection of its own. */
async function askHttp(domain = 'd'): Promise<string> {
  const body = JSON.stringify({ domain, descriptors: [{}] })
  const headers = { connection: 'close' }
  const answer = await fetch(`http://${HOST}:${ports.http}/json`, { method: 'POST', body, headers })
  return ((await answer.json()) as RateLimitResponse).responseHeadersToAdd[0].value
}

function askGrpc(domain = 'd'): Promise<string> {
  const options = { 'grpc.use_local_subchannel_pool': 1 }
  const client = new Client(`${HOST}:${ports.grpc}`, credentials.createInsecure(), options)
  const request = Buffer.from(encodeRequest({ domain, descriptors: [], hitsAddend: 1 }))
  const same = (bytes: Buffer) => bytes
  return new Promise((resolve, reject) => {
    client.makeUnaryRequest(SHOULD_RATE_LIMIT, same, same, request, (error, bytes) => {
      client.close()
      if (error) reject(error)
      else resolve(decodeResponse(bytes!).responseHeadersToAdd[0].value)
    })
  })
}

async function threads(ask: () => Promise<string>): Promise<Set<string>> {
  return new Set(await Promise.all(Array.from({ length: CONNECTIONS }, () => ask())))
}

test.runIf(canSharePort)(
  'both workers serve both ports, and after a drain the process ends by itself',
  async () => {
    expect((await threads(askHttp)).size).toBe(2)
    expect((await threads(askGrpc)).size).toBe(2)
    const slow: Promise<string>[] = []
    for (const ask of [askHttp, askGrpc]) {
      const inFlight = once(child, 'message')
      slow.push(ask('slow'))
      expect((await inFlight)[0]).toEqual({ slow: true })
    }
    const exited = once(child, 'exit')
    child.send('drain')
    await Promise.all(slow) // answered, not cut
    expect(await exited).toEqual([0, null])
  },
)

test.runIf(canSharePort)('a worker that crashes does not affect the other', async () => {
  const crashed = once(child, 'message')
  child.send('crash')
  expect((await crashed)[0]).toEqual({ crashed: 'crashed on demand' })
  expect((await threads(askHttp)).size).toBe(1)
  expect((await threads(askGrpc)).size).toBe(1)
  const exited = once(child, 'exit')
  child.send('drain')
  expect(await exited).toEqual([0, null])
})
