import { expect, test } from 'vitest'
import { applyBatch } from '../../../monitor/storage/apply.ts'
import type { Database } from '../../../monitor/storage/database.ts'
import {
  findDetection,
  findNewestDetection,
  pruneDetections,
  restartDetections,
} from '../../../monitor/storage/detections.ts'
import type { DetectionRow } from '../../../monitor/storage/rows.ts'
import { freshDatabase, NOW_SEC } from './stores.ts'

test('3.5: the newest version of a detection is stored, in whatever order versions arrive', async () => {
  const database = await freshDatabase()
  const done = detection('a', { status: 'done', version: 3, resultJson: '{}', finishedAtSec: NOW_SEC + 9 })
  for (const row of [detection('a'), done, detection('a', { status: 'running', version: 2 })])
    save(database, row)
  expect(findDetection(database, 'a')).toEqual(done)
  expect(findDetection(database, 'b')).toBeNull()
})

test('3.4: the newest of a target', async () => {
  const database = await freshDatabase()
  for (const [i, id] of ['a', 'b', 'c'].entries())
    save(database, detection(id, { submittedAtSec: NOW_SEC + i }))
  save(database, detection('d', { targetKey: 'https://other.example', submittedAtSec: NOW_SEC + 9 }))
  expect(findNewestDetection(database, 'https://relay.example')?.id).toBe('c')
  expect(findNewestDetection(database, 'https://unknown.example')).toBeNull()
})

test('3.5: at a start queued ones stay, running ones are queued once more, then fail', async () => {
  const database = await freshDatabase()
  const running = { status: 'running', version: 2, startedAtSec: NOW_SEC } as const
  save(database, detection('first', { submittedAtSec: NOW_SEC - 1 }))
  save(database, detection('second', running))
  save(database, detection('third', { status: 'done', version: 3 }))

  const queued = restartDetections(database, NOW_SEC + 60)
  expect(queued.map(({ id, version, startedAtSec }) => [id, version, startedAtSec])).toEqual([
    ['first', 1, null],
    ['second', 3, null],
  ])
  save(database, detection('second', { ...running, version: 4 }))
  expect(restartDetections(database, NOW_SEC + 120).map(({ id }) => id)).toEqual(['first'])
  expect(findDetection(database, 'second')).toMatchObject({
    status: 'failed',
    version: 5,
    errorCode: 'internal_error',
    finishedAtSec: NOW_SEC + 120,
  })
  expect(findDetection(database, 'third')).toMatchObject({ status: 'done', version: 3 })
})

test('M4.5#10: beyond 50,000 rows the oldest finished ones are deleted first; unfinished ones stay', async () => {
  const database = await freshDatabase()
  save(database, detection('queued', { submittedAtSec: NOW_SEC - 99 }))
  for (let i = 0; i < 6; i++) {
    save(database, detection(`d${i}`, { status: i % 2 ? 'failed' : 'done', finishedAtSec: NOW_SEC - i }))
  }
  const ids = () => database.all<{ id: string }>('SELECT id FROM detection ORDER BY id').map(({ id }) => id)
  expect(pruneDetections(database, NOW_SEC, 2, 3)).toBe(2)
  expect(ids()).toEqual(['d0', 'd1', 'd2', 'd3', 'queued'])
  expect(pruneDetections(database, NOW_SEC, 5_000, 3)).toBe(2)
  expect(ids()).toEqual(['d0', 'd1', 'queued'])
  expect(pruneDetections(database, NOW_SEC, 5_000, 3)).toBe(0)
})

function save(database: Database, row: DetectionRow): void {
  expect(applyBatch(database, [{ kind: 'detection', detection: row }], NOW_SEC)).toEqual([])
}

function detection(id: string, more: Partial<DetectionRow> = {}): DetectionRow {
  return {
    id,
    targetKey: 'https://relay.example',
    url: 'https://relay.example',
    status: 'queued',
    version: 1,
    submittedAtSec: NOW_SEC,
    startedAtSec: null,
    finishedAtSec: null,
    clientHash: 'h',
    resultJson: null,
    errorCode: null,
    ...more,
  }
}
