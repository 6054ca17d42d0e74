import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { setTimeout as wait } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { HOUR_SEC } from '../../../monitor/scoring/bucket.ts'
import { Database } from '../../../monitor/storage/database.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { seed, seeded, size } from '../../helpers/size.ts'
import { atOf, siteOf } from './killed-probes.ts'
import { NOW_SEC } from './stores.ts'

const kills = size({ small: 3, full: 50 })
const LOST_MAX_MS = 250

test(`M13#11: killed ${kills} times in the middle of writes, at most 250 ms of probes are lost`, async () => {
  const path = join(makeMemoryFolder(), 'monitor.db')
  const random = seeded(seed())
  let first = 0
  for (let kill = 0; kill < kills; kill++) {
    const rate = [200, 1_000, 5_000][kill % 3]
    const lines = await runAndKill(path, first, rate, 300 + random() * 700)
    const written = lostOf(path, first, lines)
    expect(written.lostMs, `kill ${kill} at ${rate}/s`).toBeLessThanOrEqual(LOST_MAX_MS + written.waitedMs)
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

async function runAndKill(path: string, first: number, rate: number, afterMs: number): Promise<Lines> {
  const file = fileURLToPath(new URL('./killed-store.ts', import.meta.url))
  const child = spawn('node', [file, path, String(first), String(rate)])
  let complaints = '' // the owner's thread loads no node:sqlite, so nobody is told that it is experimental
  child.stderr.on('data', (chunk) => {
    complaints += chunk
  })
  let text = ''
  child.stdout.on('data', (chunk) => {
    text += chunk
  })
  await once(child.stdout, 'data')
  await wait(afterMs)
  const killedAtMs = Date.now()
  child.kill('SIGKILL')
  await once(child, 'close')
  expect(complaints).toBe('')
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

/** How old the oldest probe was that was handed over and is not there; and whatever else is wrong with the file. */
function lostOf(path: string, first: number, { numbers, atMs, waitedMs, killedAtMs }: Lines) {
  const database = new Database(path)
  const ids = new Map(
    database.all<{ id: number; slug: string }>('SELECT id, slug FROM site').map((row) => [row.slug, row.id]),
  )
  const isThere = (number: number) =>
    database.get(
      'SELECT 1 FROM probe_raw WHERE site_id = ? AND at = ?',
      ids.get(siteOf(number))!,
      atOf(number),
    ) !== undefined
  let lost = first
  while (lost < numbers.at(-1)! && isThere(lost)) lost++
  const line = numbers.findIndex((number) => number > lost)
  const lostMs = line < 0 ? 0 : killedAtMs - atMs[line]
  const problems = [
    ...database.all<{ integrity_check: string }>('PRAGMA integrity_check').map((row) => row.integrity_check),
    ...database.all('PRAGMA foreign_key_check').map((row) => JSON.stringify(row)),
    ...database.all(BUCKETS_UNLIKE_RAW).map((row) => JSON.stringify(row)),
  ].filter((line) => line !== 'ok')
  database.close()
  // While the machine gives its processors to others nobody can write: that time is not the store's.
  return { lostMs, waitedMs: line < 0 ? 0 : waitedMs.at(-1)! - waitedMs[line], problems }
}

/** A bucket is in the same transaction as its raw rows: they never differ, wherever the kill came. */
const BUCKETS_UNLIKE_RAW = `SELECT * FROM (
  SELECT site_id, at - at % ${HOUR_SEC} AS hour, count(*) AS probes FROM probe_raw WHERE at >= ${NOW_SEC} GROUP BY 1, 2
  EXCEPT SELECT site_id, at, up FROM probe_hour WHERE region = 'overseas')`
