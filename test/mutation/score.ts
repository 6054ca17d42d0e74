/** The share of mutants that tests kill, and how certain it is. */
import { KILLED, SURVIVED } from './survivors.ts'

export interface Score {
  mutants: number // that the files have
  ran: number // of them in the sample, with a result
  killed: number
  timeouts: number
  survived: number // including those that no test calls
}

/** Standard deviations of a confidence of 95 %. */
const Z = 1.96

export function countScore(statuses: readonly string[]): Score {
  const count = (...wanted: string[]) => statuses.filter((status) => wanted.includes(status)).length
  return {
    mutants: statuses.length,
    ran: count(...KILLED, ...SURVIVED),
    killed: count('Killed'),
    timeouts: count('Timeout'),
    survived: count(...SURVIVED),
  }
}

export function sumScores(scores: readonly Score[]): Score {
  const sum = (get: (score: Score) => number) => scores.reduce((total, score) => total + get(score), 0)
  return {
    mutants: sum(({ mutants }) => mutants),
    ran: sum(({ ran }) => ran),
    killed: sum(({ killed }) => killed),
    timeouts: sum(({ timeouts }) => timeouts),
    survived: sum(({ survived }) => survived),
  }
}

/** 0 to 1; a mutant that never ends is killed, too. 1 if none ran. */
export function killedShare({ ran, survived }: Score): number {
  return ran === 0 ? 1 : (ran - survived) / ran
}

/** The share of all mutants, from a sample: the Wilson interval of 95 %, narrower the more of all ran. Both 0 to 1. */
export function confidenceInterval(score: Score): [number, number] {
  const { ran, mutants } = score
  const share = killedShare(score)
  if (ran === 0) return [0, 1]
  if (ran >= mutants) return [share, share]
  const n = (ran * (mutants - 1)) / (mutants - ran) // of a sample without replacement, from few
  const z2 = Z * Z
  const centre = (share + z2 / (2 * n)) / (1 + z2 / n)
  const half = (Z / (1 + z2 / n)) * Math.sqrt((share * (1 - share)) / n + z2 / (4 * n * n))
  return [centre - half, centre + half]
}
