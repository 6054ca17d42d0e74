/**
 * Runs in thread-supervisor.test.ts: counts its starts and behaves as the control words tell.
 *
 *     STARTS     number of starts
 *     BEHAVIOR   what a start does: see below
 */
import { parentPort, workerData } from 'node:worker_threads'

export const STARTS = 0
export const BEHAVIOR = 1

export const OBEY = 0 // ready; ends on `end`, fails on `fail`, blocks on `block`
export const FAIL_AT_START = 1
export const NEVER_READY = 2
const HEARTBEAT_MS = 5

export type ToThread = 'end' | 'fail' | 'block' | 'exit'
export type FromThread = { kind: 'ready' | 'heartbeat'; start: number }

if (parentPort !== null) run(workerData as Int32Array)

function run(control: Int32Array): void {
  const port = parentPort!
  const start = Atomics.add(control, STARTS, 1) + 1
  const behavior = Atomics.load(control, BEHAVIOR)
  if (behavior === FAIL_AT_START) throw new Error(`start ${start} failed`)
  const isReady = behavior !== NEVER_READY
  const send = (kind: FromThread['kind']) => port.postMessage({ kind, start } satisfies FromThread)
  const heartbeat = setInterval(() => isReady && send('heartbeat'), HEARTBEAT_MS)
  port.on('message', (message: ToThread) => {
    if (message === 'fail') throw new Error(`thread ${start} failed`)
    if (message === 'exit') process.exit(3)
    while (message === 'block');
    clearInterval(heartbeat)
    port.close()
  })
  if (isReady) send('ready')
}
