/**
 * The two profilers of V8, of this thread alone. What they find is in pprof's format.
 *
 *     cpu    every 10 ms: where is the thread? Idle time is left out; garbage collection has a line of its own
 *     heap   one object per 128 KiB allocated meanwhile: who made what is still there at the end?
 *
 * Both have a price only while they run: see transports/debug/README.md. Loading the library takes 18 ms once per thread,
 * starting the first one 16 ms more; between the two the thread does other work.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Measurement } from './inspected-thread.ts'

const CPU_INTERVAL_US = 10_000 // as Go has it
const HEAP_INTERVAL_BYTES = 128 * 1024 // 32 KiB cost a loaded worker 7 %; a decision allocates little, so more would see little
const HEAP_DEPTH = 64

export async function beginCpu(): Promise<Measurement<Uint8Array>> {
  const { time } = await import('@datadog/pprof')
  await nextTurn()
  time.start({ intervalMicros: CPU_INTERVAL_US })
  return {
    end: () => encodeProfile(time.stop()),
    cancel: () => void time.stop(),
  }
}

export async function beginHeap(): Promise<Measurement<Uint8Array>> {
  const { heap } = await import('@datadog/pprof')
  await nextTurn()
  heap.start(HEAP_INTERVAL_BYTES, HEAP_DEPTH)
  return {
    async end() {
      const profile = heap.profile()
      heap.stop()
      return encodeProfile(profile)
    },
    cancel: () => heap.stop(),
  }
}

/** In another turn than the one that collected it, and in small steps. */
async function encodeProfile(profile: { encodeAsync(): Promise<Uint8Array> }): Promise<Uint8Array> {
  await nextTurn()
  return profile.encodeAsync()
}
