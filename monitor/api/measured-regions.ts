/** Regions with a vantage that was seen within the time for which a result is valid (spec 7.1). */
import type { Region } from '../facts.ts'
import { RESULT_AGE_MAX_SEC } from '../scoring/regions.ts'
import type { Snapshot } from '../storage/snapshot.ts'

export function measuredRegions({ vantages, generatedAtSec }: Snapshot): Region[] {
  const sinceSec = generatedAtSec - RESULT_AGE_MAX_SEC
  return (['cn', 'overseas'] as const).filter((wanted) =>
    vantages.some(({ region, lastSeenSec }) => region === wanted && (lastSeenSec ?? 0) >= sinceSec),
  )
}

/** The region without results where the other has some; null where both or none is measured. */
export function findUnmeasured(measured: readonly Region[]): Region | null {
  if (measured.length !== 1) return null
  return measured[0] === 'cn' ? 'overseas' : 'cn'
}
