/** Lines that all workers repeat are bounded per process. */
import { expect, test } from 'vitest'
import { RepeatedLines } from '../../../engine/runtime/repeated-lines.ts'

function collect() {
  const lines: string[] = []
  const timers = new Set<() => void>()
  const repeated = new RepeatedLines((run) => {
    timers.add(run)
    return () => timers.delete(run)
  })
  return {
    lines,
    timers,
    log: (line: string) => repeated.log(line, (text) => lines.push(text)),
    close: () => repeated.close(),
    takeLines: () => lines.splice(0),
    passSecond() {
      for (const run of [...timers]) {
        timers.delete(run)
        run()
      }
    },
  }
}

test('the first three lines of a text are written at once, then one per second with their number', () => {
  const on = collect()
  for (let i = 0; i < 10; i++) on.log('down')
  on.log('open')
  expect(on.takeLines()).toEqual(['down', 'down', 'down', 'open'])
  on.passSecond()
  expect(on.takeLines()).toEqual(['down (7 times in the last second)'])
  on.log('down')
  on.log('down')
  expect(on.takeLines()).toEqual([])
  on.passSecond()
  expect(on.takeLines()).toEqual(['down (2 times in the last second)'])
  on.passSecond()
  expect(on.takeLines()).toEqual([])
})

test('what a worker has left out is counted, and does not make another text of the line', () => {
  const on = collect()
  for (let i = 0; i < 3; i++) on.log('down')
  on.log('down (398 more were left out)')
  on.log('down (x more were left out)')
  on.passSecond()
  expect(on.lines.slice(3)).toEqual(['down (x more were left out)', 'down (399 times in the last second)'])
})

test('after ten quiet seconds a text is new again, and no timer runs', () => {
  const on = collect()
  for (let i = 0; i < 3; i++) on.log('down')
  for (let i = 0; i < 11; i++) on.passSecond()
  expect(on.timers.size).toBe(0)
  on.log('down')
  expect(on.lines).toHaveLength(4)
})

test('texts are bounded: the oldest is written and forgotten', () => {
  const on = collect()
  for (let i = 0; i < 5; i++) on.log('first')
  for (let i = 0; i < 256; i++) on.log(`line ${i}`)
  expect(on.lines).toContain('first (2 times in the last second)')
  on.log('first')
  expect(on.lines.at(-1)).toBe('first')
})

test('closing writes what was left out', () => {
  const on = collect()
  for (let i = 0; i < 5; i++) on.log('down')
  on.close()
  expect(on.lines.at(-1)).toBe('down (2 times in the last second)')
  expect(on.timers.size).toBe(0)
})
