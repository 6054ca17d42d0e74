/** Results on disk: what stays, what goes first, and how they are numbered. */
import { statSync } from 'node:fs'
import { join } from 'node:path'
import { expect, onTestFinished, test } from 'vitest'
import { type BufferOptions, type Measured, ResultBuffer } from '../../../monitor/agent/buffer.ts'
import { NOW_SEC, result, temporaryFolder } from './setup.ts'

function measured(atSec: number, more: Partial<Measured> = {}): Measured {
  const { sequence: _, ...rest } = result(1, { at_s: atSec, ...more })
  return rest
}

const up = (atSec: number) => measured(atSec)
const down = (atSec: number) =>
  measured(atSec, { outcome: 'down', error: 'tls_reset', address: '203.0.113.7' })

function bufferOf(options: Partial<BufferOptions> = {}): ResultBuffer {
  const buffer = new ResultBuffer({ path: join(temporaryFolder(), 'deep', 'agent.sqlite'), ...options })
  onTestFinished(() => buffer.close())
  return buffer
}

/** As `7u 8d`: number, and the first letter of the outcome. */
const drawn = (buffer: ResultBuffer) =>
  buffer
    .first(100)
    .map(({ sequence, outcome }) => `${sequence}${outcome[0]}`)
    .join(' ')

test('what was added comes back, oldest first, numbered from 1', () => {
  const buffer = bufferOf()
  buffer.add(up(NOW_SEC))
  buffer.add(down(NOW_SEC - 5))
  expect(buffer.first(500)).toEqual([
    { sequence: 1, ...up(NOW_SEC) },
    { sequence: 2, ...down(NOW_SEC - 5) },
  ])
  expect(buffer.first(1)).toHaveLength(1)
  buffer.forget(1)
  expect(drawn(buffer)).toBe('2d')
})

test('numbers grow on after all is forgotten, after a restart, and after what the server has seen', () => {
  const path = join(temporaryFolder(), 'agent.sqlite')
  const first = new ResultBuffer({ path })
  for (let i = 0; i < 3; i++) first.add(up(NOW_SEC + i))
  first.forget(3)
  first.close()
  const second = new ResultBuffer({ path })
  second.add(up(NOW_SEC))
  expect(drawn(second)).toBe('4u')
  second.continueAfter(2) // an older number changes nothing
  second.add(down(NOW_SEC))
  expect(drawn(second)).toBe('4u 5d')
  second.close()
  const empty = bufferOf()
  empty.continueAfter(8_123) // a new disk, the same agent
  empty.add(up(NOW_SEC))
  expect(drawn(empty)).toBe('8124u')
})

test('6.5: full, the oldest up goes first; without one the oldest', () => {
  const buffer = bufferOf({ rowsMax: 4 })
  for (const add of [down, up, down, up]) buffer.add(add(NOW_SEC))
  expect(drawn(buffer)).toBe('1d 2u 3d 4u')
  buffer.add(down(NOW_SEC))
  expect(drawn(buffer)).toBe('1d 3d 4u 5d')
  buffer.add(up(NOW_SEC))
  expect(drawn(buffer)).toBe('1d 3d 5d 6u')
  buffer.add(down(NOW_SEC))
  buffer.add(down(NOW_SEC))
  expect(drawn(buffer)).toBe('3d 5d 7d 8d')
  expect([buffer.count, buffer.droppedCount]).toEqual([4, 4])
})

test('bytes are bounded too, and known after a restart', () => {
  const row = JSON.stringify(up(NOW_SEC)).length
  const path = join(temporaryFolder(), 'agent.sqlite')
  const first = new ResultBuffer({ path, bytesMax: 3 * row })
  for (let i = 0; i < 10; i++) first.add(up(NOW_SEC))
  expect([drawn(first), first.bytes]).toEqual(['8u 9u 10u', 3 * row])
  first.close()
  const second = bufferOf({ path, bytesMax: 3 * row })
  expect([second.count, second.bytes]).toEqual([3, 3 * row])
  second.add(up(NOW_SEC))
  expect(drawn(second)).toBe('9u 10u 11u')
})

test('6.5: what is older than a day goes', () => {
  const buffer = bufferOf()
  for (const atSec of [NOW_SEC - 2, NOW_SEC, NOW_SEC - 1]) buffer.add(down(atSec))
  buffer.forgetBefore(NOW_SEC - 1)
  expect([drawn(buffer), buffer.droppedCount]).toEqual(['2d 3d', 1])
})

test('the disk gets back what is handed over', () => {
  const path = join(temporaryFolder(), 'agent.sqlite')
  const first = new ResultBuffer({ path })
  for (let i = 0; i < 5_000; i++) first.add(up(NOW_SEC + i))
  first.close()
  const full = statSync(path).size
  const second = new ResultBuffer({ path })
  second.forget(5_000)
  second.close()
  expect(statSync(path).size).toBeLessThan(full / 10)
})

test('two agents cannot use one file', () => {
  const path = join(temporaryFolder(), 'agent.sqlite')
  bufferOf({ path }).add(up(NOW_SEC))
  expect(() => new ResultBuffer({ path })).toThrow(
    /cannot be used to keep results.*another agent.*AGENT_BUFFER/,
  )
})
