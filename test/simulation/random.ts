/** Random choices of one schedule: independent streams from one seed, so that a choice in one does not move the others. */
import { seeded } from '../../bench/size.ts'

export class Random {
  /** 0 to below 1. */
  readonly next: () => number

  /** `stream` names what the numbers are for. */
  constructor(seed: number, stream: string) {
    let state = seed | 0
    for (const character of stream) state = Math.imul(state ^ character.charCodeAt(0), 0x9e37_79b1)
    this.next = seeded(state ^ (state >>> 15))
  }

  /** A whole number from `min` to `max`, both included. */
  int(min: number, max: number): number {
    return min + Math.floor(this.next() * (max - min + 1))
  }

  between(min: number, max: number): number {
    return min + this.next() * (max - min)
  }

  chance(share: number): boolean {
    return this.next() < share
  }

  pick<T>(values: readonly T[]): T {
    return values[Math.floor(this.next() * values.length)]
  }
}
