import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { HOUR_SEC } from '../../../monitor/scoring/bucket.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { seed, seeded, size } from '../../helpers/size.ts'
import { getSlug, getTimeSec } from './killed-probes.ts'
import { NOW_SEC } from './stores.ts'

const kills = size({ small: 3, full: 50 })
const isFull = process.env.SLUICE_SIZE === 'full'
const LOST_MAX_MS = 250 // a matter of processor time, so it is asserted by npm run test:full only

test(`M13#11: killed ${kills} times in the middle of writes, at most 250 ms of probes are lost`, async () => {
  const path = join(makeMemoryFolder(), 'monitor.db')
  const random = seeded(seed())
  let first = 0
  for (let kill = 0; kill < kills; kill++) {
    const rate = [200, 1_000, 5_000][kill % 3]
    const lines = await runAndKill(path, first, rate, 30 + Math.floor(random() * 70))
    const written = measureLoss(path, first, lines)
    if (isFull)
      expect(written.lostMs, `kill ${kill} at ${rate}/s`).toBeLessThanOrEqual(LOST_MAX_MS + written.waitedMs)
    expect(written.writtenCount, `kill ${kill} at ${rate}/s`).toBeGreaterThan(0)
    expect(written.problems, `kill ${kill} at ${rate}/s`).toEqual([])
    first = lines.numbers.at(-1)! + 1
  }
})

interface Lines {
  numbers: number[]
  atMs: number[]
  waitedMs: number[]
  killedAtMs: number
}

/** Kills the process after so many lines, one per 5 ms at the earliest. */
async function runAndKill(path: string, first: number, rate: number, linesMin: number): Promise<Lines> {
  const file = fileURLToPath(new URL('./killed-store.ts', import.meta.url))
  const child = spawn('node', [file, path, String(first), String(rate)])
  let errors = '' // also checks that the owner's thread loads no node:sqlite, which would print a warning
  child.stderr.on('data', (chunk) => {
    errors += chunk
  })
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  await eventually(() => expect(text.split('\n').length).toBeGreaterThan(linesMin))
  const killedAtMs = Date.now()
  child.kill('SIGKILL')
  await once(child, 'close')
  expect(errors).toBe('')
  const rows = text
    .split('\n')
    .slice(0, -1)
    .map((line) => line.split(' ').map(Number))
  return {
    numbers: rows.map(([number]) => number),
    atMs: rows.map(([, atMs]) => atMs),
    waitedMs: rows.map(([, , waitedMs]) => waitedMs),
    killedAtMs,
  }
}

/** How old the oldest lost probe was, how many are stored, and every inconsistency of the file. */
function measureLoss(path: string, first: number, { numbers, atMs, waitedMs, killedAtMs }: Lines) {
  const database = new Database(path)
  const ids = new Map(
    database.all<{ id: number; slug: string }>('SELECT id, slug FROM site').map((row) => [row.slug, row.id]),
  )
  const isStored = (number: number) =>
    database.get(
      'SELECT 1 FROM probe_raw WHERE site_id = ? AND at = ?',
      ids.get(getSlug(number))!,
      getTimeSec(number),
    ) !== undefined
  let lost = first
  while (lost < numbers.at(-1)! && isStored(lost)) lost++
  // Only the newest are lost: none is stored after the first one that is not.
  let last = numbers.at(-1)!
  while (last > lost && !isStored(last)) last--
  const holes = last > lost ? [`probe ${lost} is lost, ${last} is stored`] : []
  const line = numbers.findIndex((number) => number > lost)
  const lostMs = line < 0 ? 0 : killedAtMs - atMs[line]
  const problems = [
    ...holes,
    ...database.all<{ integrity_check: string }>('PRAGMA integrity_check').map((row) => row.integrity_check),
    ...database.all('PRAGMA foreign_key_check').map((row) => JSON.stringify(row)),
    ...database.all(BUCKETS_UNLIKE_RAW).map((row) => JSON.stringify(row)),
  ].filter((line) => line !== 'ok')
  database.close()
  // Time in which its threads waited for a processor is not the store's.
  return {
    lostMs,
    writtenCount: lost - first,
    waitedMs: line < 0 ? 0 : waitedMs.at(-1)! - waitedMs[line],
    problems,
  }
}

/** A bucket is in the same transaction as its raw rows: they never differ, wherever the kill came. */
const BUCKETS_UNLIKE_RAW = `SELECT * FROM (
  SELECT site_id, at - at % ${HOUR_SEC} AS hour, count(*) AS probes FROM probe_raw WHERE at >= ${NOW_SEC} GROUP BY 1, 2
  EXCEPT SELECT site_id, at, up FROM probe_hour WHERE region = 'overseas')`
