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
const AT_ONCE = 4 // connections
const END_MAX_MS = 10_000
const HEAP_GROWTH_MAX = 8 * 1024 * 1024
const WILD_SHARE = 0.4 // of connections
const CHANGED_SHARE = 0.01 // of their frames
const PROBE_AHEAD = 2 ** 20

interface Tally {
  frames: number
  connections: number
  called: number
  probes: number
  answeredProbes: number
}

test(`${frames} frames (seed ${seed()})`, async () => {
  const services = new FuzzServices()
  const server = new Http2Server({ methods: [services.unary], streams: [services.stream] })
  const tally: Tally = { frames: 0, connections: 0, called: 0, probes: 0, answeredProbes: 0 }
  let heapBytes = 0
  let isWarm = false
  while (tally.frames < frames) {
    const runs = Array.from({ length: AT_ONCE }, () => {
      const connectionSeed = (seed() + ++tally.connections * 7_919) | 0
      return runConnection(server, services, connectionSeed, tally)
    })
    await Promise.all(runs)
    services.release(1, Math.random)
    await expectNothingLeft(server, services)
    if (isWarm || tally.frames < frames / 4) continue
    isWarm = true
    heapBytes = await usedBytes()
  }
  tally.called = services.calledCount
  expect((await usedBytes()) - heapBytes).toBeLessThan(HEAP_GROWTH_MAX)
  expect(tally.called).toBeGreaterThan(frames / 50)
  expect(tally.answeredProbes).toBeGreaterThan(tally.probes / 10) // otherwise mutated frames always close the connection
  console.log(JSON.stringify(tally))
})

async function runConnection(server: Http2Server, services: FuzzServices, ofSeed: number, tally: Tally) {
  const random = seeded(ofSeed)
  const peer = new FuzzPeer(random)
  const isRaw = random() < 0.1
  server.accept(peer.socket as unknown as Socket)
  const wildFrom = random() < WILD_SHARE ? Math.floor(random() * 100) : Number.POSITIVE_INFINITY
  const steps = 20 + Math.floor(random() * 500)
  for (let i = 0; i < steps && !peer.isGone && !peer.socket.destroyed; i++) {
    if (i === wildFrom) goWild(peer, random, isRaw)
    peer.step()
    if (random() < 0.3) peer.deliver()
    if (random() < 0.05) services.release(random(), random)
    if (random() < 0.02) peer.socket.stick()
    if (random() < 0.04) peer.socket.unstick()
    if (random() < 0.2) await turn()
  }
  const problems = peer.isWild ? await endWild(peer, services, isRaw, tally) : await end(peer, services)
  tally.frames += peer.framesCount
  if (problems.length > 0) throw new Error(`connection seed ${ofSeed}: ${problems.slice(0, 5).join('; ')}`)
  if (random() < 0.5) peer.socket.hangUp()
  else peer.socket.destroy()
  await until(() => peer.socket.closed)
}

function goWild(peer: FuzzPeer, random: () => number, isRaw: boolean): void {
  peer.isWild = true
  peer.mutate = (bytes) => (random() < CHANGED_SHARE ? mutated(bytes, random, isRaw) : [bytes])
}

/** All frames are sent and all calls released: what deviates? */
async function end(peer: FuzzPeer, services: FuzzServices): Promise<string[]> {
  peer.finish()
  await until(() => {
    services.release(1, Math.random)
    return peer.calls.size === 0 || peer.isGone
  })
  if (peer.isGone) peer.problems.push(`the connection ended: ${peer.goneWhy}`)
  else if (!peer.isWindowOpen) peer.problems.push('the window of the connection stays shut')
  for (const call of peer.calls.values()) peer.problems.push(`no end of ${call}`)
  return peer.problems
}

/** One more call, independent of earlier frames, gets one response, or the connection has closed. */
async function endWild(peer: FuzzPeer, services: FuzzServices, isRaw: boolean, tally: Tally) {
  peer.socket.unstick()
  peer.mutate = null
  peer.deliver(1)
  tally.probes++
  const probe = peer.probe(peer.highestId + PROBE_AHEAD)
  const isDone = await until(
    () => {
      services.release(1, Math.random)
      return probe.isOver || peer.isGone || peer.socket.destroyed
    },
    isRaw ? 20 : END_MAX_MS, // random bytes can leave a partial frame, which swallows the probe
  )
  if (!isDone && !isRaw) peer.problems.push('neither an answer nor an end')
  if (probe.isOver) tally.answeredProbes++
  return peer.problems
}

async function until(holds: () => boolean, maxMs = END_MAX_MS): Promise<boolean> {
  const endMs = performance.now() + maxMs
  while (!holds()) {
    if (performance.now() > endMs) return false
    await turn()
  }
  return true
}

async function expectNothingLeft(server: Http2Server, services: FuzzServices): Promise<void> {
  const insides = server as unknown as { connections: Set<unknown>; deadlines: { count: number } }
  const left = () => {
    const { heldBytes, callsCount } = server.quotas
    return [heldBytes, callsCount, insides.connections.size, insides.deadlines.count, services.streamsCount]
  }
  if (await until(() => left().every((count) => count === 0))) return // unpacking may take a moment more
  throw new Error(`left: bytes, calls, connections, deadlines, streams: ${left()}`)
}

async function usedBytes(): Promise<number> {
  setFlagsFromString('--expose-gc')
  const collect = runInNewContext('gc') as () => void
  for (let i = 0; i < 3; i++) {
    collect()
    await turn()
  }
  const { heapUsed, arrayBuffers } = process.memoryUsage()
  return heapUsed + arrayBuffers
}
