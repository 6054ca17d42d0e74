/**
 * A round: random rules, the same random requests to both, then the counters of both.
 *
 *     rules of all lanes ──► load ──► lanes, concurrently ──► Redis of both, key by key ──► differences, minimised
 */
import { stringify } from 'yaml'
import type { SentRequest } from './client.ts'
import { jsonText, malformedText } from './json-texts.ts'
import { Lane, type LaneResult } from './lane.ts'
import { minimise } from './minimise.ts'
import type { Pair } from './pair.ts'
import type { Random } from './random.ts'
import { randomRequest } from './requests.ts'
import { type DomainYaml, type RuleYaml, randomRules } from './rules.ts'
import { countersFailure, isFull, responseFailure, type Tally } from './tally.ts'
import type { Variant } from './variants.ts'

export interface RoundSize {
  lanes: number
  requests: number // per lane
}

/** A lane's tag is the prefix of its domains, so it identifies its counters and statistics. */
export const TAG = /L\d\dR\d{4}/

interface Plan {
  tag: string
  isPlain: boolean
  rules: DomainYaml[]
  random: Random
  lane: Lane
}

/** `index`: of the round in this run of the services. Returns the tags of the lanes whose counters cannot be compared. */
export async function runRound(
  pair: Pair,
  variant: Variant,
  index: number,
  size: RoundSize,
  random: Random,
  tally: Tally,
): Promise<Set<string>> {
  const plans = Array.from({ length: size.lanes }, (_, lane) =>
    plan(pair, variant, lane, index, random.fork()),
  )
  try {
    await pair.load(toFiles(plans.flatMap(({ rules }) => rules)))
    const results = await Promise.all(
      plans.map((each) => each.lane.run(generateRequests(each, variant, size.requests))),
    )
    const setAsideTags = new Set<string>()
    for (const [i, result] of results.entries()) {
      count(tally, result)
      if (result.setAside !== '' || result.difference !== null) setAsideTags.add(plans[i].tag)
    }
    await compareCounters(pair, variant, plans, setAsideTags, tally)
    for (const [i, result] of results.entries()) {
      if (result.difference === null || isFull(tally)) continue
      const shown = variant.hasLocalCache ? result : await minimise(pair, plans[i].lane, result)
      const rules = selectRules(plans[i].rules, shown.difference!.sent)
      tally.failures.push(
        responseFailure(shown.difference!, shown.sent, result.sent.length, variant.settings, rules),
      )
    }
    return setAsideTags
  } finally {
    for (const { lane } of plans) lane.close()
    await pair.clearCounters()
  }
}

function plan(pair: Pair, variant: Variant, lane: number, index: number, random: Random): Plan {
  const tag = `L${String(lane).padStart(2, '0')}R${String(index).padStart(4, '0')}`
  const isPlain = variant.hasLocalCache // local caches differ deliberately for a counter with two limits (Q35)
  const rules = randomRules(random, tag, { isMerging: variant.isMerging, isPlain })
  return { tag, isPlain, rules, random, lane: new Lane(pair, variant) }
}

function* generateRequests(
  { tag, isPlain, rules, random }: Plan,
  { hasGiants }: Variant,
  count: number,
): Generator<SentRequest> {
  for (let i = 0; i < count; i++) {
    const request = randomRequest(random, tag, rules, { isPlain, hasGiants })
    const kind = random.below(100)
    if (kind < 62) yield { request, text: null }
    else yield { request, text: kind < 95 ? jsonText(random, request) : malformedText(random, request) }
  }
}

/** One domain per file; several files may feed one domain. */
function toFiles(rules: DomainYaml[]): Record<string, string> {
  return Object.fromEntries(
    rules.map((file, i) => [
      `rules-${String(i).padStart(3, '0')}.yaml`,
      stringify(file, { version: '1.1', defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'PLAIN' }),
    ]),
  )
}

/** The rules of a lane that the request may match. */
function selectRules(rules: DomainYaml[], { request }: SentRequest): DomainYaml[] {
  const firsts = request.descriptors
    .flatMap(({ entries }) => entries.slice(0, 1))
    .map((e) => `${e.key}_${e.value}`)
  const mayMatch = ({ key, value = '' }: RuleYaml) =>
    firsts.some((first) => first.startsWith(`${key}${value && `_${value}`}`.replace('*', '')))
  return rules
    .filter(({ domain }) => domain === request.domain)
    .map(({ domain, descriptors }) => ({ domain, descriptors: descriptors.filter(mayMatch) }))
}

function count(tally: Tally, { sent, descriptorsCount, setAside }: LaneResult): void {
  tally.requests += sent.length
  tally.descriptors += descriptorsCount
  if (setAside !== '') tally.setAside.set(setAside, (tally.setAside.get(setAside) ?? 0) + 1)
}

async function compareCounters(
  pair: Pair,
  { settings }: Variant,
  plans: Plan[],
  setAsideTags: Set<string>,
  tally: Tally,
): Promise<void> {
  const [sluice, reference] = await Promise.all([pair.contents('sluice'), pair.contents('reference')])
  const wrong: string[] = []
  for (const key of new Set([...sluice.keys(), ...reference.keys()])) {
    if (setAsideTags.has(TAG.exec(key)?.[0] ?? '')) continue
    tally.counters++
    const [count, referenceCount] = [sluice.get(key), reference.get(key)]
    const isMissing = count === undefined || referenceCount === undefined
    if (count === referenceCount || (isMissing && mayHaveExpired(key))) continue
    wrong.push(`${JSON.stringify(key)}: Sluice ${count}, reference ${referenceCount}`)
  }
  if (wrong.length === 0 || isFull(tally)) return
  const first = plans.find(({ tag }) => wrong[0].includes(tag)) // one lane's rules are enough to read
  tally.failures.push(countersFailure('counters in Redis', wrong, settings, first?.rules ?? []))
}

/** Windows of seconds and minutes may end before the comparison. Sluice keeps the expiry of the first hit, the reference that of the last. */
function mayHaveExpired(key: string): boolean {
  const start = Number(/\d+$/.exec(key)?.[0])
  return start % 3600 !== 0 && Date.now() / 1000 >= start + (start % 60 === 0 ? 60 : 1)
}
