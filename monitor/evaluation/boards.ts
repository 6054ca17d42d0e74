/**
 * Both boards of one day as rows (spec 7.3, 7.4, 8.2): all eligible sites, by rank.
 *
 *     previous board ─► since ────┐
 *     candidates ─► buildBoards ──┴─► today's rows, replaced with every pass ─► tomorrow: "24 h ago"
 *
 * Days are UTC days. The change of rank is joined where boards are read (storage/publish.ts). An empty board leaves no row,
 * so the day boards were made for is stored separately.
 */
import { type BoardPast, buildBoards, type Candidate } from '../scoring/boards.ts'
import { bucketStartSec, DAY_SEC } from '../scoring/bucket.ts'
import type { Database } from '../storage/database.ts'
import { BOARDS_DAY, type Board, type Write } from '../storage/rows.ts'
import { readSince } from './rows.ts'

const NO_RANKS: ReadonlyMap<string, number> = new Map()

export interface PassCandidate extends Candidate {
  siteId: number
}

export function boardWrites(
  database: Database,
  candidates: readonly PassCandidate[],
  nowSec: number,
): Write[] {
  const daySec = bucketStartSec(nowSec, DAY_SEC)
  const ids = new Map(candidates.map(({ slug, siteId }) => [slug, siteId]))
  const past = (board: Board): BoardPast => {
    const since = readSince(database, board)
    const known = candidates.flatMap(({ slug, siteId }) => {
      const sinceSec = since.get(siteId)
      return sinceSec === undefined ? [] : [[slug, toDate(sinceSec)] as const]
    })
    return { dayAgoRanks: NO_RANKS, since: new Map(known) }
  }
  const boards = buildBoards(candidates, { red: past('red'), black: past('black') }, nowSec)
  const write = (board: Board): Write => {
    const rows = boards[board].map(({ slug, rank, since, reasons }) => {
      return { siteId: ids.get(slug)!, rank, sinceSec: Date.parse(since) / 1_000, reasons }
    })
    return { kind: 'board', daySec, board, rows }
  }
  return [write('red'), write('black'), { kind: 'meta', key: BOARDS_DAY, value: String(daySec) }]
}

function toDate(atSec: number): string {
  return new Date(atSec * 1_000).toISOString().slice(0, 10)
}
