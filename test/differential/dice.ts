/** Random choices that a seed repeats. */
import { seeded } from '../helpers/size.ts'

export class Dice {
  private readonly random: () => number

  constructor(seed: number) {
    this.random = seeded(seed)
  }

  /** A whole number from 0 to below `count`. */
  below(count: number): number {
    return Math.floor(this.random() * count)
  }

  /** True in `share` of all calls; 0 to 1. */
  chance(share: number): boolean {
    return this.random() < share
  }

  pick<T>(list: readonly T[]): T {
    return list[this.below(list.length)]
  }

  /** Dice of its own for a part of the work, so that its choices do not move when another part makes more of them. */
  fork(): Dice {
    return new Dice(this.below(2 ** 31))
  }
}
