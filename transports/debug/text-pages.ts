/** The bodies of `/rlconfig` and `/stats`. */
import type { Rule, RulesImage } from '../../engine/config/rules.ts'
import { HAS_DETAILED_METRIC, HAS_SHARE_THRESHOLD, HAS_VALUE_TO_METRIC } from '../../engine/match/image.ts'
import { Trie } from '../../engine/match/trie.ts'
import { UNIT_NAMES } from '../../proto/ratelimit.ts'

export type Stat = readonly [name: string, value: number]

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are replaced
const CONTROL = /[\u0000-\u001f\u007f-\u009f\u2028\u2029]/g // in a key they would add lines

/**
 * shop.user: unit=MINUTE requests_per_unit=5, shadow_mode: false, quota_mode: false
 * shop.user_admin: unlimited, shadow_mode: false, quota_mode: false
 * shop.login: unit=HOUR requests_per_unit=9, shadow_mode: false, quota_mode: false, on_store_error: local, local_share: 50
 *
 * `failure` is the error of the last load if it failed; the rules are those from before it.
 */
export function* rulesLines(image: RulesImage | null, failure: string | null): Iterable<string> {
  if (failure !== null) yield `# the last load failed: ${toOneLine(failure)}\n`
  if (image === null) return
  for (const rule of new Trie(image).rules()) yield ruleLine(rule)
}

function ruleLine({ path, limit, isUnlimited, isShadow, isQuota, onStoreError, localShare }: Rule): string {
  const { unit, requestsPerUnit } = limit
  const bound = isUnlimited ? 'unlimited' : `unit=${UNIT_NAMES[unit]} requests_per_unit=${requestsPerUnit}`
  const policy = onStoreError ? `, on_store_error: ${onStoreError}` : ''
  const share = localShare ? `, local_share: ${localShare}` : ''
  return `${path.replaceAll(CONTROL, '_')}: ${bound}, shadow_mode: ${isShadow}, quota_mode: ${isQuota}${policy}${share}\n`
}

/** { "load_failure": null, "rules": [ … ] } with a line per rule and all fields of its file. */
export function* rulesJson(image: RulesImage | null, failure: string | null): Iterable<string> {
  yield `{ "load_failure": ${JSON.stringify(failure)}, "rules": [`
  const trie = image && new Trie(image)
  let separator = '\n'
  for (const rule of trie?.rules() ?? []) {
    yield `${separator}${JSON.stringify(ruleFields(trie!, rule))}`
    separator = ',\n'
  }
  yield '\n] }\n'
}

function ruleFields(trie: Trie, rule: Rule): object {
  const [domain, ...nodes] = trie.getRuleNodes(rule)
  const { path, limit, isUnlimited, isShadow, isQuota, onStoreError, localShare, replaces, metadata } = rule
  const bound = isUnlimited
    ? { unlimited: true }
    : { unit: UNIT_NAMES[limit.unit], requests_per_unit: limit.requestsPerUnit }
  return {
    path,
    domain: trie.getText(domain),
    descriptors: nodes.map((node) => descriptorFields(trie, node)),
    rate_limit: {
      ...bound,
      ...(limit.name !== '' && { name: limit.name }),
      ...(replaces.length > 0 && { replaces: replaces.map((name) => ({ name })) }),
    },
    shadow_mode: isShadow,
    quota_mode: isQuota,
    ...(onStoreError && { on_store_error: onStoreError }),
    ...(localShare && { local_share: localShare }),
    ...(metadata && { metadata }),
    ...trie.getPlace(nodes[nodes.length - 1]),
  }
}

/** The fields of one level as in a file; flags that are off are omitted. */
function descriptorFields(trie: Trie, node: number): object {
  const { key, value } = trie.getKeyAndValue(node)
  const flags = trie.getFlags(node)
  return {
    key,
    ...(value !== '' && { value }),
    ...(flags & HAS_DETAILED_METRIC && { detailed_metric: true }),
    ...(flags & HAS_VALUE_TO_METRIC && { value_to_metric: true }),
    ...(flags & HAS_SHARE_THRESHOLD && { share_threshold: true }),
  }
}

/** ratelimit.service.rate_limit.shop.user.total_hits: 17 */
export function* statsLines(stats: readonly Stat[]): Iterable<string> {
  for (const [name, value] of stats) yield `${name}: ${value}\n`
}

/** { "ratelimit.service.rate_limit.shop.user.total_hits": 17, … } with a line per counter. */
export function* statsJson(stats: readonly Stat[]): Iterable<string> {
  let separator = '{\n'
  for (const [name, value] of stats) {
    yield `${separator}  ${JSON.stringify(name)}: ${value}`
    separator = ',\n'
  }
  yield stats.length === 0 ? '{}\n' : '\n}\n'
}

function toOneLine(text: string): string {
  const lines = text.split(/[\r\n]/).map((line) => line.trim())
  return lines.filter((line) => line !== '').join(' ')
}
