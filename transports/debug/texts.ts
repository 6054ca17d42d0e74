/** What `/rlconfig` and `/stats` say. */
import { Trie } from '../../engine/match/trie.ts'
import type { Rule, RulesImage } from '../../engine/rules.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'

export type Stat = readonly [name: string, value: number]

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g // in a key they would make lines of their own

/**
 * shop.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
 *
 * `failure`: what the last load said if it failed; the rules shown are from before it.
 */
export function* rulesLines(image: RulesImage | null, failure: string | null): Iterable<string> {
  if (failure !== null) yield `# the last load failed: ${toOneLine(failure)}\n`
  if (image === null) return
  for (const rule of new Trie(image).rules()) yield ruleLine(rule)
}

function ruleLine({ path, limit, isShadow, isQuota }: Rule): string {
  const unit = UNIT_NAMES[limit.unit]
  const modes = `shadow_mode: ${isShadow}, quota_mode: ${isQuota}`
  return `${path.replaceAll(CONTROL, '_')}: unit=${unit} requests_per_unit=${limit.requestsPerUnit}, ${modes}\n`
}

/** ratelimit.service.rate_limit.shop.user.total_hits: 17 */
export function* statsLines(stats: readonly Stat[]): Iterable<string> {
  for (const [name, value] of stats) yield `${name}: ${value}\n`
}

/** { "ratelimit.service.rate_limit.shop.user.total_hits": 17, … } with a line per counter. */
export function* statsJson(stats: readonly Stat[]): Iterable<string> {
  let before = '{\n'
  for (const [name, value] of stats) {
    yield `${before}  ${JSON.stringify(name)}: ${value}`
    before = ',\n'
  }
  yield stats.length === 0 ? '{}\n' : '\n}\n'
}

function toOneLine(text: string): string {
  const lines = text.split(/[\r\n]/).map((line) => line.trim())
  return lines.filter((line) => line !== '').join(' ')
}
