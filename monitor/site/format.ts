/** Numbers, percentages, durations and times of one language, by Intl. Times are UTC (design, section 7). */
import { DAY_SEC, HOUR_SEC } from '../scoring/bucket.ts'

const MINUTE_SEC = 60

export type Plural = Partial<Record<Intl.LDMLPluralRule, string>> & { other: string }

export class Format {
  private readonly numbers: Intl.NumberFormat
  private readonly decimals: Intl.NumberFormat
  private readonly percentages: Intl.NumberFormat
  private readonly shares: Intl.NumberFormat
  private readonly plurals: Intl.PluralRules
  private readonly lists: Intl.ListFormat

  /** `language`: a BCP 47 tag. */
  constructor(language: string) {
    const exact = { minimumFractionDigits: 2, maximumFractionDigits: 2 } as const
    this.numbers = new Intl.NumberFormat(language, { maximumFractionDigits: 0 })
    this.decimals = new Intl.NumberFormat(language, { minimumFractionDigits: 1, maximumFractionDigits: 1 })
    this.percentages = new Intl.NumberFormat(language, { style: 'percent', ...exact, roundingMode: 'floor' })
    this.shares = new Intl.NumberFormat(language, { style: 'percent', maximumFractionDigits: 0 })
    this.plurals = new Intl.PluralRules(language)
    this.lists = new Intl.ListFormat(language, { type: 'conjunction' })
  }

  number(value: number): string {
    return this.numbers.format(value)
  }

  /** With one decimal. */
  decimal(value: number): string {
    return this.decimals.format(value)
  }

  /** Two decimals, rounded down, so that 100.00% means no loss at all. */
  percent(ratio: number): string {
    return this.percentages.format(Math.round(ratio * 1e8) / 1e8) // what binary fractions add is not a loss
  }

  /** Whole percent, rounded. */
  share(ratio: number): string {
    return this.shares.format(ratio)
  }

  /** The form for `count`; `{n}` in it is replaced by the count. */
  plural(count: number, forms: Plural): string {
    return (forms[this.plurals.select(count)] ?? forms.other).replace('{n}', this.number(count))
  }

  list(parts: readonly string[]): string {
    return this.lists.format(parts)
  }
}

/** `2026-11-22` */
export function toDate(atSec: number): string {
  return new Date(atSec * 1_000).toISOString().slice(0, 10)
}

/** `2026-11-22 08:25` */
export function toDateTime(atSec: number): string {
  return new Date(atSec * 1_000).toISOString().slice(0, 16).replace('T', ' ')
}

/** `08:25` */
export function toTime(atSec: number): string {
  return new Date(atSec * 1_000).toISOString().slice(11, 16)
}

/** The two largest units of a duration: `[[5, 'day'], [19, 'hour']]`. At least one minute. */
export function toDuration(seconds: number): [number, 'day' | 'hour' | 'minute'][] {
  const minutes = Math.max(1, Math.floor(seconds / MINUTE_SEC))
  const [days, hours] = [Math.floor(seconds / DAY_SEC), Math.floor((seconds % DAY_SEC) / HOUR_SEC)]
  if (days > 0) return hours > 0 ? [[days, 'day'], [hours, 'hour']] : [[days, 'day']] // biome-ignore format: one line
  if (hours === 0) return [[minutes, 'minute']]
  const rest = Math.floor((seconds % HOUR_SEC) / MINUTE_SEC)
  return rest > 0 ? [[hours, 'hour'], [rest, 'minute']] : [[hours, 'hour']] // biome-ignore format: one line
}
