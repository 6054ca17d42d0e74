/** Random choices, reproducible by their seed. */
import { seeded } from '../helpers/size.ts'

export class Random {
  private readonly next: () => number

  constructor(seed: number) {
    this.next = seeded(seed)
  }

  /** A whole number from 0 to below `count`. */
  below(count: number): number {
    return Math.floor(this.next() * count)
  }

  /** True in `share` of all calls; 0 to 1. */
  chance(share: number): boolean {
    return this.next() < share
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]
  }

  /** A generator for a part of the work, whose choices do not change when another part makes more of them. */
  fork(): Random {
    return new Random(this.below(2 ** 31))
  }
}
