/**
 * Replaces what the product takes from its surroundings: timers, clocks, random numbers and `net.connect`.
 *
 * The product reads each of them from its global or module at every use, so nothing in it changes for the simulation and its hot path pays
 * nothing. `process.nextTick` and promises stay: VirtualTime runs them to their end after each callback.
 */
import { createRequire, syncBuiltinESMExports } from 'node:module'
import type { Random } from './random.ts'
import type { VirtualTime } from './virtual-time.ts'

type Connect = (...args: never[]) => unknown

const net: { connect: Connect } = createRequire(import.meta.url)('node:net')
const realConnect = net.connect
let connectNow = realConnect
net.connect = (...args) => connectNow(...args)
syncBuiltinESMExports() // once, since it visits every module of Node

/** Returns what restores everything. */
export function replaceGlobals(time: VirtualTime, random: Random, connect: Connect): () => void {
  const restores = [
    replace(globalThis, 'setTimeout', time.setTimeout),
    replace(globalThis, 'clearTimeout', time.clearTimeout),
    replace(globalThis, 'setImmediate', time.setImmediate),
    replace(Date, 'now', () => time.wallMs),
    replace(performance, 'now', () => time.nowMs),
    replace(Math, 'random', random.next),
    replace(crypto, 'getRandomValues', (into: Int32Array) =>
      into.map(() => random.int(-(2 ** 31), 2 ** 31 - 1)),
    ),
  ]
  connectNow = connect
  return () => {
    for (const restore of restores) restore()
    connectNow = realConnect
  }
}

function replace(holder: object, name: string, value: unknown): () => void {
  const before = Object.getOwnPropertyDescriptor(holder, name)
  Object.defineProperty(holder, name, {
    value,
    configurable: true,
    writable: true,
    enumerable: before?.enumerable ?? true,
  })
  return () => {
    if (before) Object.defineProperty(holder, name, before)
    else delete (holder as Record<string, unknown>)[name]
  }
}
