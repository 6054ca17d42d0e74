/** What a probe finds while its own thread stands still: the relay has answered, and nobody has read it. */
import { afterAll, beforeAll, expect, test } from 'vitest'
import { NO_ASN_TABLE } from '../../../monitor/probe/asn.ts'
import { lightProbe, type ProbeContext } from '../../../monitor/probe/probe.ts'
import { standStill } from '../../helpers/stand-still.ts'
import { ok } from '../egress/raw-server.ts'
import type { World } from '../egress/setup.ts'
import { startWorld } from '../egress/setup.ts'

const STALL_MS = 1_500
let world: World
beforeAll(async () => {
  world = await startWorld()
  const answer = ok('{"data":[{"id":"a"}]}', 'content-type: application/json\r\n')
  world.relay.on('/v1/models', (socket, request) => {
    answer(socket, request) // is in the kernel's hands
    setImmediate(() => standStill(STALL_MS))
  })
  world.relay.on('/silent/v1/models', () => {})
})
afterAll(() => world.close())

const probe = async (path: string, firstByteMs: number, slowMs: number) => {
  const egress = world.egress({ limits: { firstByteMs } })
  const context: ProbeContext = { egress, asn: NO_ASN_TABLE, nowMs: Date.now, slowMs }
  const url = world.url(path)
  const tried = await lightProbe(context, { url, apiBase: url, purpose: 'catalogue' })
  return [tried.probe.outcome, tried.probe.error]
}

// biome-ignore format: a table
const cases = [
  // what the stall does,             path,      first byte, slow after → outcome, error
  ['outlasts the deadline',           '/',               400,      60_000, 'inconclusive', 'http_timeout'],
  ['makes the answer look slow',      '/',            20_000,         500, 'inconclusive', 'slow'],
  ['changes nothing that counts',     '/',            20_000,      60_000, 'up',           null],
  ['is not there',                    '/silent/',        400,      60_000, 'down',         'http_timeout'],
] as const
for (const [what, path, firstByteMs, slowMs, outcome, error] of cases) {
  test(`6.3: a stall that ${what}: ${outcome}`, async () => {
    expect(await probe(path, firstByteMs, slowMs)).toEqual([outcome, error])
  })
}
