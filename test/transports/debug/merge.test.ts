import { gzipSync } from 'node:zlib'
import {
  Line,
  Location,
  Function as PprofFunction,
  Profile,
  Sample,
  StringTable,
  ValueType,
} from 'pprof-format'
import { expect, test } from 'vitest'
import { mergeProfiles } from '../../../transports/debug/merge.ts'
import { needsGo, pprof } from '../../helpers/pprof.ts'

/** Of stacks with the innermost function first, each with its nanoseconds. Numbers depend on the order of the stacks. */
function createProfile(stacks: Record<string, number>, durationNanos: number): Uint8Array {
  const strings = new StringTable()
  const wall = new ValueType({ type: strings.dedup('wall'), unit: strings.dedup('nanoseconds') })
  const names = [...new Set(Object.keys(stacks).flatMap((stack) => stack.split(' ')))]
  const getId = (name: string) => names.indexOf(name) + 1
  const filename = strings.dedup('/engine/decision/engine.ts')
  return new Profile({
    sampleType: [wall],
    periodType: wall,
    period: 10_000_000,
    timeNanos: 1_700_000_000_000_000_000n,
    durationNanos,
    stringTable: strings,
    function: names.map(
      (name) => new PprofFunction({ id: getId(name), name: strings.dedup(name), filename }),
    ),
    location: names.map((name) => {
      return new Location({ id: getId(name), line: [new Line({ functionId: getId(name), line: 7 })] })
    }),
    sample: Object.entries(stacks).map(([stack, ns]) => {
      return new Sample({ locationId: stack.split(' ').map(getId), value: [ns] })
    }),
  }).encode()
}

const main = createProfile({ 'flush tick': 10_000_000 }, 1_000)
const worker = createProfile({ 'match decide': 30_000_000, 'flush decide': 20_000_000 }, 2_000)
const threads = new Map([
  ['main', main],
  ['worker 0', worker],
])

/** A profile as a drawing: thread, stack, value. */
function drawing(bytes: Uint8Array): string[] {
  const { sample, location, function: functions, stringTable } = Profile.decode(bytes)
  const text = (index: number | bigint) => stringTable.strings[Number(index)]
  return sample.map(({ locationId, value, label }) => {
    const names = locationId.map((id) => {
      const { line } = location.find((each) => each.id === id)!
      return text(functions.find((each) => each.id === line[0].functionId)!.name)
    })
    return `${label.map(({ key, str }) => `${text(key)}=${text(str)}`)}: ${names.join(' < ')} ${value}`
  })
}

test('6.5: merged samples keep their stacks and have the thread as a label', () => {
  expect(drawing(mergeProfiles(threads, []))).toEqual([
    'thread=main: flush < tick 10000000',
    'thread=worker 0: match < decide 30000000',
    'thread=worker 0: flush < decide 20000000',
  ])
})

test('6.5: equal entries of several threads are merged; the longest duration counts', () => {
  const {
    function: functions,
    location,
    durationNanos,
    sampleType,
    comment,
    stringTable,
  } = Profile.decode(mergeProfiles(threads, ['missing: worker 1: no answer']))
  const { strings } = stringTable
  expect(functions.map(({ name }) => strings[Number(name)]).sort()).toEqual([
    'decide',
    'flush',
    'match',
    'tick',
  ])
  expect(location).toHaveLength(4)
  expect(Number(durationNanos)).toBe(2_000)
  expect(sampleType.map(({ type, unit }) => `${strings[Number(type)]} ${strings[Number(unit)]}`)).toEqual([
    'wall nanoseconds',
  ])
  expect(comment.map((index) => strings[Number(index)])).toEqual(['missing: worker 1: no answer'])
})

test('6.5: `go tool pprof` reads it and filters by thread', async (context) => {
  needsGo(context)
  const bytes = gzipSync(mergeProfiles(threads, ['missing: worker 1: no answer']))
  expect(await pprof(bytes, '-top')).toMatch(/30ms +50.00% +flush|30ms +50.00% .*match/)
  expect(await pprof(bytes, '-top', '-tagfocus=thread=main')).not.toContain('match')
  expect(await pprof(bytes, '-tags')).toMatch(/50ms \(83.33%\): worker 0/)
  expect(await pprof(bytes, '-comments')).toContain('missing: worker 1: no answer')
})
