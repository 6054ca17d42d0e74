/**
 * V8's CPU and heap profilers, for this thread only. Profiles are in pprof's format.
 *
 *     cpu    a sample of the stack every 10 ms; without idle time, garbage collection as its own frame
 *     heap   a sample per 128 KiB allocated during the profile; shows the objects still alive at its end
 *
 * They cost time only while they run, see transports/debug/README.md. Loading the library takes 18 ms once per thread and
 * starting the first profile 16 ms more; the thread serves requests in between.
 */
import { setImmediate as nextTurn } from 'node:timers/promises'
import type { Measurement } from './measurement.ts'

const CPU_INTERVAL_US = 10_000 // as in Go
const HEAP_INTERVAL_BYTES = 128 * 1024 // 32 KiB cost a loaded worker 7 %; with more, few allocations are sampled
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

/** Encodes in small steps, in a later turn than the collection. */
async function encodeProfile(profile: { encodeAsync(): Promise<Uint8Array> }): Promise<Uint8Array> {
  await nextTurn()
  return profile.encodeAsync()
}
