import { afterEach, expect, test, vi } from 'vitest'
import { FlushLoop } from '../../../transports/metrics/flush.ts'
import type { Sink, Snapshot } from '../../../transports/metrics/sink.ts'
import { createSnapshot, notedLog } from './peers.ts'

afterEach(() => void vi.useRealTimers())

/** A sink whose flushes end when told to. */
class HeldSink implements Sink {
  dropped = 0
  readonly totals: number[] = []
  isHeld = false
  state = ''
  private release: () => void = () => {}

  start(): void {
    this.state = 'started'
  }

  async flush({ counters }: Snapshot): Promise<void> {
    this.totals.push(counters[0][1])
    if (this.isHeld) await new Promise<void>((resolve) => (this.release = resolve))
  }

  letGo(): void {
    this.isHeld = false
    this.release()
  }

  async close(): Promise<void> {
    this.state = 'closed'
  }
}

function counting(): () => Promise<Snapshot> {
  let total = 0
  return async () => createSnapshot({ counters: [['hits', ++total]] })
}

test('7.3: every interval all sinks get the totals; no last flush at the end', async () => {
  vi.useFakeTimers()
  const [a, b] = [new HeldSink(), new HeldSink()]
  const loop = new FlushLoop({ intervalMs: 10_000, read: counting(), sinks: [a, b], log: notedLog().log })
  loop.start()
  expect(a.state).toBe('started')
  await vi.advanceTimersByTimeAsync(30_000)
  await loop.close()
  await vi.advanceTimersByTimeAsync(30_000)
  expect([a.totals, b.totals]).toEqual([
    [1, 2, 3],
    [1, 2, 3],
  ])
  expect(b.state).toBe('closed')
})

test('7.3: an interval longer than timers can be does not become a short one', async () => {
  vi.useFakeTimers()
  const sink = new HeldSink()
  const loop = new FlushLoop({ intervalMs: 2 ** 40, read: counting(), sinks: [sink], log: notedLog().log })
  loop.start()
  await vi.advanceTimersByTimeAsync(3_600_000)
  expect(sink.totals).toEqual([])
  await loop.close()
})

test('7.3: a sink that hangs is left out, the other is not, and it gets the totals of later', async () => {
  const [hanging, other] = [new HeldSink(), new HeldSink()]
  const { log, lines } = notedLog()
  const loop = new FlushLoop({ intervalMs: 10_000, read: counting(), sinks: [hanging, other], log })
  hanging.isHeld = true
  const first = loop.flush()
  await vi.waitFor(() => expect(other.totals).toEqual([1]))
  await loop.flush()
  await loop.flush()
  expect([hanging.totals, other.totals]).toEqual([[1], [1, 2, 3]])
  expect(lines).toEqual(['warning: statistics flush skipped for a sink: its previous flush is not finished'])
  hanging.letGo()
  await first
  await loop.flush()
  expect(hanging.totals).toEqual([1, 4])
})

test('7.3: a reading that hangs is not started twice', async () => {
  let readings = 0
  let answer = (_: Snapshot): void => {}
  const read = () => {
    readings++
    return new Promise<Snapshot>((resolve) => (answer = resolve))
  }
  const sink = new HeldSink()
  const loop = new FlushLoop({ intervalMs: 10_000, read, sinks: [sink], log: notedLog().log })
  const first = loop.flush()
  await loop.flush()
  expect(readings).toBe(1)
  answer(createSnapshot({ counters: [['hits', 7]] }))
  await first
  expect(sink.totals).toEqual([7])
})

test('7.3: the last flush follows a running one, which may have read before the last hits', async () => {
  let hits = 1
  let letGo = (): void => {}
  const read = async () => {
    const snapshot = createSnapshot({ counters: [['hits', hits]] })
    if (hits === 1) await new Promise<void>((resolve) => (letGo = resolve))
    return snapshot
  }
  const sink = new HeldSink()
  const loop = new FlushLoop({ intervalMs: 10_000, read, sinks: [sink], log: notedLog().log })
  void loop.flush()
  hits = 5
  const finished = loop.finish()
  letGo()
  await finished
  expect(sink.totals).toEqual([1, 5])
})

test('7.3: the last flush waits for a sink that is busy, also when flushes have been left out meanwhile', async () => {
  const sink = new HeldSink()
  const loop = new FlushLoop({ intervalMs: 10_000, read: counting(), sinks: [sink], log: notedLog().log })
  sink.isHeld = true
  void loop.flush()
  await vi.waitFor(() => expect(sink.totals).toEqual([1]))
  await loop.flush() // left out
  const finished = loop.finish()
  setTimeout(() => sink.letGo(), 50)
  await finished
  expect(sink.totals).toEqual([1, 3])
})

test('7.3: a failing sink or reading does not stop others', async () => {
  const failing = new HeldSink()
  failing.flush = () => Promise.reject(new Error('a mistake'))
  const other = new HeldSink()
  const { log, lines } = notedLog()
  let isBroken = false
  const read = async () => {
    if (isBroken) throw new Error('no worker answers')
    return createSnapshot({ counters: [['hits', 1]] })
  }
  const loop = new FlushLoop({ intervalMs: 10_000, read, sinks: [failing, other], log })
  await loop.flush()
  expect(other.totals).toEqual([1])
  isBroken = true
  await loop.flush()
  isBroken = false
  await loop.flush()
  expect(other.totals).toEqual([1, 1])
  expect(lines).toEqual(['warning: a statistics sink failed: a mistake'])
})

test('7.3: dropped values are logged once a minute, and counted', async () => {
  vi.useFakeTimers()
  const sink = new HeldSink()
  const { log, lines } = notedLog()
  let counted = 0
  const onDropped = (count: number) => {
    counted += count
  }
  const loop = new FlushLoop({ intervalMs: 10_000, read: counting(), sinks: [sink], log, onDropped })
  await loop.flush()
  expect([counted, lines]).toEqual([0, []])
  sink.dropped = 7
  await loop.flush()
  sink.dropped = 9
  await loop.flush()
  await loop.flush()
  expect(counted).toBe(9)
  const text = 'values dropped (buffer full or connection lost);'
  expect(lines).toEqual([`warning: statistics: 7 ${text} 7 since the start`])
  await vi.advanceTimersByTimeAsync(60_000)
  sink.dropped = 10
  await loop.flush()
  expect(lines[1]).toBe(`warning: statistics: 1 ${text} 10 since the start (1 more were left out)`)
})
