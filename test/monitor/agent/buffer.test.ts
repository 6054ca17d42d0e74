/** Results on disk: order, bounds, and files that cannot be read. */
import { mkdirSync, readdirSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, expect, onTestFinished, test } from 'vitest'
import { type BufferOptions, type Measured, ResultBuffer } from '../../../monitor/agent/buffer.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { NOW_SEC, result } from './setup.ts'

function measured(atSec: number, more: Partial<Measured> = {}): Measured {
  const { sequence: _, ...rest } = result(1, { at_s: atSec, ...more })
  return rest
}

const up = (atSec: number) => measured(atSec)
const down = (atSec: number) =>
  measured(atSec, { outcome: 'down', error: 'tls_reset', address: '203.0.113.7' })

const logged: string[] = []
beforeEach(() => void logged.splice(0))
const log: BufferOptions['log'] = (level, text) => logged.push(`${level}: ${text}`)

function openBuffer(options: Partial<BufferOptions> = {}): ResultBuffer {
  const buffer = new ResultBuffer({ path: join(makeMemoryFolder(), 'deep', 'agent.sqlite'), log, ...options })
  onTestFinished(() => buffer.close())
  return buffer
}

/** As `7u 8d`: row, and the first letter of the outcome. */
const draw = (buffer: ResultBuffer) =>
  buffer
    .first(100)
    .map(({ row, measured }) => `${row}${measured.outcome[0]}`)
    .join(' ')

test('results are returned oldest first, numbered from 1', () => {
  const buffer = openBuffer()
  buffer.add(up(NOW_SEC))
  buffer.add(down(NOW_SEC - 5))
  expect(buffer.first(500)).toEqual([
    { row: 1, measured: up(NOW_SEC) },
    { row: 2, measured: down(NOW_SEC - 5) },
  ])
  expect(buffer.first(1)).toHaveLength(1)
  buffer.forget(1)
  expect(draw(buffer)).toBe('2d')
})

test('row numbers grow after all rows are deleted; the rest is there after a restart', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  const first = openBuffer({ path })
  for (let i = 0; i < 3; i++) first.add(up(NOW_SEC + i))
  first.forget(3)
  first.add(up(NOW_SEC))
  expect(draw(first)).toBe('4u')
  first.close()
  const second = openBuffer({ path })
  second.add(down(NOW_SEC))
  expect(draw(second)).toBe('4u 5d')
})

test('6.5: when full, the oldest up is dropped first; without one the oldest', () => {
  const buffer = openBuffer({ rowsMax: 4 })
  for (const add of [down, up, down, up]) buffer.add(add(NOW_SEC))
  expect(draw(buffer)).toBe('1d 2u 3d 4u')
  buffer.add(down(NOW_SEC))
  expect(draw(buffer)).toBe('1d 3d 4u 5d')
  buffer.add(up(NOW_SEC))
  expect(draw(buffer)).toBe('1d 3d 5d 6u')
  buffer.add(down(NOW_SEC))
  buffer.add(down(NOW_SEC))
  expect(draw(buffer)).toBe('3d 5d 7d 8d')
  expect([buffer.count, buffer.droppedCount]).toEqual([4, 4])
})

test('bytes are bounded too, and counted after a restart', () => {
  const row = JSON.stringify(up(NOW_SEC)).length
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  const first = new ResultBuffer({ log, path, bytesMax: 3 * row })
  for (let i = 0; i < 10; i++) first.add(up(NOW_SEC))
  expect([draw(first), first.bytes]).toEqual(['8u 9u 10u', 3 * row])
  first.close()
  const second = openBuffer({ path, bytesMax: 3 * row })
  expect([second.count, second.bytes]).toEqual([3, 3 * row])
  second.add(up(NOW_SEC))
  expect(draw(second)).toBe('9u 10u 11u')
})

test('6.5: results older than the given time are dropped', () => {
  const buffer = openBuffer()
  for (const atSec of [NOW_SEC - 2, NOW_SEC, NOW_SEC - 1]) buffer.add(down(atSec))
  buffer.forgetBefore(NOW_SEC - 1)
  expect([draw(buffer), buffer.droppedCount]).toEqual(['2d 3d', 1])
})

test('deleted results free disk space', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  const first = new ResultBuffer({ log, path })
  for (let i = 0; i < 5_000; i++) first.add(up(NOW_SEC + i))
  first.close()
  const full = statSync(path).size
  const second = new ResultBuffer({ log, path })
  second.forget(5_000)
  second.close()
  expect(statSync(path).size).toBeLessThan(full / 10)
})

test('two agents cannot use one file', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  openBuffer({ path }).add(up(NOW_SEC))
  expect(() => new ResultBuffer({ log, path, busyMs: 1 })).toThrow(
    /cannot be used to keep results.*another agent.*AGENT_BUFFER/,
  )
})

/** Files that no buffer can read. */
const DAMAGES: [string, (path: string) => void, RegExp][] = [
  ['is not a database', (path) => writeFileSync(path, 'x'.repeat(8_192)), /file is not a database/],
  ['has another schema', (path) => other(path, 'CREATE TABLE result (a TEXT)'), /no such column/],
  [
    'has text that is not JSON',
    (path) => other(path, `${MADE}; INSERT INTO result VALUES (1, 1, 1, '{')`),
    /JSON/,
  ],
  [
    'has a row number beyond 2^53', // which versions before the bound could be made to write
    (path) => other(path, `${MADE}; INSERT INTO result VALUES (9007199254740992, 1, 1, '{}')`),
    /too large to be represented/,
  ],
  [
    'has a row number that leaves no room for others',
    (path) => other(path, `${MADE}; INSERT INTO result VALUES (9007199254740990, 1, 1, '{}')`),
    /its row numbers are used up, at 9007199254740990/,
  ],
]
const MADE = `CREATE TABLE result (sequence INTEGER PRIMARY KEY AUTOINCREMENT, at INTEGER NOT NULL,
  is_up INTEGER NOT NULL, json TEXT NOT NULL) STRICT`

function other(path: string, sql: string): void {
  const database = new Database(path)
  database.exec(sql)
  database.close()
}

for (const [name, damage, reason] of DAMAGES) {
  test(`a file that ${name} is set aside with a remedy, and the agent starts`, () => {
    const path = join(makeMemoryFolder(), 'agent.sqlite')
    damage(path)
    const size = statSync(path).size
    writeFileSync(`${path}.unreadable`, 'an older one')
    const buffer = openBuffer({ path })
    expect(logged).toHaveLength(1)
    expect(logged[0]).toMatch(reason)
    expect(logged[0]).toMatch(
      /^error: .*agent\.sqlite: cannot be read \(.*\); it is now .*agent\.sqlite\.unreadable, .*\[AGENT_BUFFER\]$/,
    )
    expect(statSync(`${path}.unreadable`).size).toBeGreaterThanOrEqual(size)
    buffer.add(up(NOW_SEC))
    expect(draw(buffer)).toBe('1u')
    buffer.close()
    expect(draw(openBuffer({ path }))).toBe('1u')
    expect(logged).toHaveLength(1)
  })
}

test('rows that are not results are dropped when they are read, counted, and the first is logged', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  openBuffer({ path }).close()
  const good = JSON.stringify(up(NOW_SEC))
  const bad = [
    JSON.stringify({ ...up(NOW_SEC), sequence: 5 }), // would be sent under that number
    JSON.stringify({ ...up(NOW_SEC), address: null, more: 1 }),
    '{}',
    'null',
    `${good}${' '.repeat(6_000_000)}`,
  ]
  const insert = (json: string) => `INSERT INTO result (at, is_up, json) VALUES (${NOW_SEC}, 1, '${json}');`
  other(path, [...bad, good, ...bad, good].map(insert).join(''))
  const buffer = openBuffer({ path })
  expect(buffer.first(1)).toEqual([{ row: 6, measured: up(NOW_SEC) }])
  expect(draw(buffer)).toBe('6u 12u')
  expect([buffer.count, buffer.bytes, buffer.droppedCount]).toEqual([2, 2 * good.length, 10])
  expect(logged).toEqual([
    expect.stringMatching(
      /^error: .*agent\.sqlite: has rows that are not results; they are dropped and counted\./,
    ),
  ])
})

test('a file that becomes unreadable while open is set aside, too', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  const buffer = openBuffer({ path })
  buffer.add(up(NOW_SEC))
  const { database } = buffer as unknown as { database: Database }
  database.exec("INSERT INTO result VALUES (9007199254740992, 1, 1, '{}')")
  expect(buffer.first(500)).toEqual([])
  buffer.add(down(NOW_SEC))
  expect([draw(buffer), buffer.count]).toEqual(['1d', 1])
  expect(logged).toHaveLength(1)
})

test('a file whose numbering is at its maximum keeps its results and numbers on from them', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  const first = openBuffer({ path })
  for (const atSec of [NOW_SEC, NOW_SEC + 1]) first.add(up(atSec))
  first.close()
  other(path, "UPDATE sqlite_sequence SET seq = 9223372036854775807 WHERE name = 'result'")
  const second = openBuffer({ path })
  second.add(down(NOW_SEC))
  expect([draw(second), logged]).toEqual(['1u 2u 3d', []])
})

test('an empty file of an earlier version with exhausted row numbers starts at 1 again', () => {
  const path = join(makeMemoryFolder(), 'agent.sqlite')
  other(path, `${MADE}; INSERT INTO result VALUES (9007199254740991, 1, 1, '{}'); DELETE FROM result`)
  const buffer = openBuffer({ path })
  buffer.add(up(NOW_SEC))
  expect([draw(buffer), logged]).toEqual(['1u', []])
})

test('a path that cannot be opened is a configuration error, and nothing is set aside', () => {
  const folder = makeMemoryFolder()
  const path = join(folder, 'agent.sqlite')
  mkdirSync(path)
  expect(() => openBuffer({ path })).toThrow(/cannot be used to keep results: .*AGENT_BUFFER/)
  expect(readdirSync(folder)).toEqual(['agent.sqlite'])
})
