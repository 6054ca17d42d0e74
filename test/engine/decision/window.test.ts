import { expect, test } from 'vitest'
import { parseUnit, resetSec, unitSec, windowStartSec } from '../../../engine/decision/window.ts'
import { Unit } from '../../../proto/ratelimit.ts'

// biome-ignore format: the columns are the specification
const windows = [
  // now, length -> start, reset
  [    0,     60,     0,    60], // the first second still has the whole window ahead
  [   59,     60,     0,     1], // never 0
  [   60,     60,    60,    60], // the edge belongs to the new window
  [ 1234,      1,  1234,     1], // example of 3.1
  [ 1234,     60,  1200,    26], // example of 3.1
  [345_599, 604_800,  0, 259_201], // 1970-01-04: weeks start on the epoch's Thursday
] as const

for (const [now, length, start, reset] of windows) {
  test(`3.1, 4.6: at ${now} s a window of ${length} s began at ${start} and resets in ${reset} s`, () => {
    expect(windowStartSec(now, length)).toBe(start)
    expect(resetSec(now, length)).toBe(reset)
  })
}

// biome-ignore format: the columns are the specification
const units = [
  ['second', Unit.Second,          1],
  ['Minute', Unit.Minute,         60],
  ['HOUR',   Unit.Hour,        3_600],
  ['day',    Unit.Day,        86_400],
  ['week',   Unit.Week,      604_800],
  ['month',  Unit.Month,   2_592_000],
  ['year',   Unit.Year,   31_536_000],
  ['',       Unit.Unknown,         0],
  ['hours',  Unit.Unknown,         0],
  ['unknown', Unit.Unknown,        0],
] as const

for (const [name, unit, seconds] of units) {
  test(`1.1: "${name}" is unit ${unit} of ${seconds} s`, () => {
    expect(parseUnit(name)).toBe(unit)
    expect(unitSec(unit)).toBe(seconds)
  })
}

test('5.2: numbers that are not a unit have no length', () => {
  expect([-1, 8, 99, 2 ** 31].map(unitSec)).toEqual([0, 0, 0, 0])
})
