/**
 * The HTTP/2 frontend under millions of frames, valid and nearly valid, over sockets in this process:
 *
 *     valid          every call gets exactly one response, its own; windows are respected; no GOAWAY
 *     mutated        no call gets two responses; then one more call is served, or the connection has closed
 *     always         no exception; afterwards all counts are zero, nothing is held, and the heap is as before
 */
import type { Socket } from 'node:net'
import { setImmediate as turn } from 'node:timers/promises'
import { setFlagsFromString } from 'node:v8'
import { runInNewContext } from 'node:vm'
import { expect, test } from 'vitest'
import { Http2Server } from '../../transports/grpc/http2/server.ts'
import { seed, seeded, size } from '../helpers/size.ts'
import { mutated } from './frames-mutations.ts'
import { FuzzPeer } from './frames-peer.ts'
import { FuzzServices } from './frames-services.ts'

const frames = size({ small: 60_000, full: 5_000_000 })
const CONNECTIONS = 4 // at once
const END_MS_MAX = 60_000
const HEAP_GROWTH_MAX = 8 * 1024 * 1024
const MUTATED_SHARE = 0.4 // of connections
const CHANGED_SHARE = 0.01 // of their frames
const PROBE_AHEAD = 2 ** 20
const RAW_TURNS_MAX = 200 // of the event loop, for a probe that a partial frame may have swallowed

interface Tally {
  frames: number
  connections: number
  calls: number
  probes: number
  completedProbes: number
}

test(`${frames} frames (seed ${seed()})`, async () => {
  const services = new FuzzServices()
  const server = new Http2Server({ methods: [services.unary], streams: [services.stream] })
  const tally: Tally = { frames: 0, connections: 0, calls: 0, probes: 0, completedProbes: 0 }
  let heapBytes = 0
  let isWarm = false
  while (tally.frames < frames) {
    const runs = Array.from({ length: CONNECTIONS }, () => {
      const connectionSeed = (seed() + ++tally.connections * 7_919) | 0
      return runConnection(server, services, connectionSeed, tally)
    })
    await Promise.all(runs)
    services.release(1, Math.random)
    await expectNothingLeft(server, services)
    if (isWarm || tally.frames < frames / 4) continue
    isWarm = true
    heapBytes = await measureHeapBytes()
  }
  tally.calls = services.callsCount
  expect((await measureHeapBytes()) - heapBytes).toBeLessThan(HEAP_GROWTH_MAX)
  expect(tally.calls).toBeGreaterThan(frames / 50)
  expect(tally.completedProbes).toBeGreaterThan(tally.probes / 10) // otherwise mutated frames always close the connection
  console.log(JSON.stringify(tally))
})

async function runConnection(
  server: Http2Server,
  services: FuzzServices,
  connectionSeed: number,
  tally: Tally,
) {
  const random = seeded(connectionSeed)
  const peer = new FuzzPeer(random)
  const isRaw = random() < 0.1
  server.accept(peer.socket as unknown as Socket)
  const mutatedFrom = random() < MUTATED_SHARE ? Math.floor(random() * 100) : Number.POSITIVE_INFINITY
  const steps = 20 + Math.floor(random() * 500)
  for (let i = 0; i < steps && !peer.isClosed && !peer.socket.destroyed; i++) {
    if (i === mutatedFrom) startMutating(peer, random, isRaw)
    peer.step()
    if (random() < 0.3) peer.deliver()
    if (random() < 0.05) services.release(random(), random)
    if (random() < 0.02) peer.socket.stick()
    if (random() < 0.04) peer.socket.unstick()
    if (random() < 0.2) await turn()
  }
  const problems = peer.isMutated ? await endMutated(peer, services, isRaw, tally) : await end(peer, services)
  tally.frames += peer.framesCount
  if (problems.length > 0)
    throw new Error(`connection seed ${connectionSeed}: ${problems.slice(0, 5).join('; ')}`)
  if (random() < 0.5) peer.socket.hangUp()
  else peer.socket.destroy()
  await until(() => peer.socket.closed)
}

function startMutating(peer: FuzzPeer, random: () => number, isRaw: boolean): void {
  peer.isMutated = true
  peer.mutate = (bytes) => (random() < CHANGED_SHARE ? mutated(bytes, random, isRaw) : [bytes])
}

/** Sends all frames and releases all calls. Returns the deviations. */
async function end(peer: FuzzPeer, services: FuzzServices): Promise<string[]> {
  peer.finish()
  await until(() => {
    services.release(1, Math.random)
    return peer.calls.size === 0 || peer.isClosed
  })
  if (peer.isClosed) peer.problems.push(`the connection ended: ${peer.goAwayText}`)
  else if (!peer.isWindowOpen) peer.problems.push('the window of the connection stays closed')
  for (const call of peer.calls.values()) peer.problems.push(`no end of ${call}`)
  return peer.problems
}

/** One more call, independent of earlier frames, gets one response, or the connection has closed. */
async function endMutated(peer: FuzzPeer, services: FuzzServices, isRaw: boolean, tally: Tally) {
  peer.socket.unstick()
  peer.mutate = null
  peer.deliver(1)
  tally.probes++
  const probe = peer.probe(peer.highestId + PROBE_AHEAD)
  let turnsLeft = isRaw ? RAW_TURNS_MAX : Number.POSITIVE_INFINITY
  const isDone = await until(() => {
    services.release(1, Math.random)
    return probe.isOver || peer.isClosed || peer.socket.destroyed || --turnsLeft < 0
  })
  if (!isDone) peer.problems.push('neither a response nor an end')
  if (probe.isOver) tally.completedProbes++
  return peer.problems
}

async function until(condition: () => boolean): Promise<boolean> {
  const endMs = performance.now() + END_MS_MAX
  while (!condition()) {
    if (performance.now() > endMs) return false
    await turn()
  }
  return true
}

async function expectNothingLeft(server: Http2Server, services: FuzzServices): Promise<void> {
  const internals = server as unknown as { connections: Set<unknown>; deadlines: { count: number } }
  const getCounts = () => {
    const { heldBytes, callsCount } = server.quotas
    return [
      heldBytes,
      callsCount,
      internals.connections.size,
      internals.deadlines.count,
      services.streamsCount,
    ]
  }
  if (await until(() => getCounts().every((count) => count === 0))) return // decompression may still run
  throw new Error(`left: bytes, calls, connections, deadlines, streams: ${getCounts()}`)
}

async function measureHeapBytes(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collectGarbage = runInNewContext('gc') as () => void
  for (let i = 0; i < 3; i++) {
    collectGarbage()
    await turn()
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
