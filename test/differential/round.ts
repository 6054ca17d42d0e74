/**
 * A round: random rules, the same random questions to both, then the counters of both.
 *
 *     rules of all lanes ──► load ──► lanes, all at once ──► Redis of both, key by key ──► differences, made smaller
 */
import { stringify } from 'yaml'
import type { Question } from './ask.ts'
import type { Dice } from './dice.ts'
import { astrayText, jsonText } from './json-texts.ts'
import { Lane, type LaneResult } from './lane.ts'
import { smaller } from './minimise.ts'
import type { Pair } from './pair.ts'
import { randomRequest } from './requests.ts'
import { type DomainYaml, type RuleYaml, randomRules } from './rules.ts'
import { answerFailure, countersFailure, isFull, type Tally } from './tally.ts'
import type { Variant } from './variants.ts'

export interface RoundSize {
  lanes: number
  questions: number // per lane
}

/** One lane's tag opens all of its domains and is found again in counters and statistics. */
export const TAG = /L\d\dR\d{4}/

interface Plan {
  tag: string
  isPlain: boolean
  rules: DomainYaml[]
  dice: Dice
  lane: Lane
}

/** `index`: of the round in this run of the services. Returns the tags of the lanes whose counters mean nothing. */
export async function runRound(
  pair: Pair,
  variant: Variant,
  index: number,
  size: RoundSize,
  dice: Dice,
  tally: Tally,
): Promise<Set<string>> {
  const plans = Array.from({ length: size.lanes }, (_, lane) => plan(pair, variant, lane, index, dice.fork()))
  try {
    await pair.load(filesOf(plans.flatMap(({ rules }) => rules)))
    const results = await Promise.all(
      plans.map((each) => each.lane.run(questions(each, variant, size.questions))),
    )
    const aside = new Set<string>()
    for (const [i, result] of results.entries()) {
      count(tally, result)
      if (result.setAside !== '' || result.difference !== null) aside.add(plans[i].tag)
    }
    await compareCounters(pair, variant, plans, aside, tally)
    for (const [i, result] of results.entries()) {
      if (result.difference === null || isFull(tally)) continue
      const shown = variant.hasLocalCache ? result : await smaller(pair, plans[i].lane, result)
      const rules = rulesOf(plans[i].rules, shown.difference!.question)
      tally.failures.push(
        answerFailure(shown.difference!, shown.asked, result.asked.length, variant.settings, rules),
      )
    }
    return aside
  } finally {
    for (const { lane } of plans) lane.close()
    await pair.forget()
  }
}

function plan(pair: Pair, variant: Variant, lane: number, index: number, dice: Dice): Plan {
  const tag = `L${String(lane).padStart(2, '0')}R${String(index).padStart(4, '0')}`
  const isPlain = variant.hasLocalCache // a counter with two limits is where local caches differ on purpose (Q35)
  const rules = randomRules(dice, tag, { isMerging: variant.isMerging, isPlain })
  return { tag, isPlain, rules, dice, lane: new Lane(pair, variant) }
}

function* questions(
  { tag, isPlain, rules, dice }: Plan,
  { hasGiants }: Variant,
  count: number,
): Generator<Question> {
  for (let i = 0; i < count; i++) {
    const request = randomRequest(dice, tag, rules, { isPlain, hasGiants })
    const way = dice.below(100)
    if (way < 62) yield { request, text: null }
    else yield { request, text: way < 95 ? jsonText(dice, request) : astrayText(dice, request) }
  }
}

/** One domain per file; several files may feed one domain. */
function filesOf(rules: DomainYaml[]): Record<string, string> {
  return Object.fromEntries(
    rules.map((file, i) => [
      `rules-${String(i).padStart(3, '0')}.yaml`,
      stringify(file, { version: '1.1', defaultStringType: 'QUOTE_DOUBLE', defaultKeyType: 'PLAIN' }),
    ]),
  )
}

/** Of a lane's rules those that the question may meet. */
function rulesOf(rules: DomainYaml[], { request }: Question): DomainYaml[] {
  const firsts = request.descriptors
    .flatMap(({ entries }) => entries.slice(0, 1))
    .map((e) => `${e.key}_${e.value}`)
  const mayMeet = ({ key, value = '' }: RuleYaml) =>
    firsts.some((first) => first.startsWith(`${key}${value && `_${value}`}`.replace('*', '')))
  return rules
    .filter(({ domain }) => domain === request.domain)
    .map(({ domain, descriptors }) => ({ domain, descriptors: descriptors.filter(mayMeet) }))
}

function count(tally: Tally, { asked, descriptorsCount, setAside }: LaneResult): void {
  tally.questions += asked.length
  tally.descriptors += descriptorsCount
  if (setAside !== '') tally.setAside.set(setAside, (tally.setAside.get(setAside) ?? 0) + 1)
}

async function compareCounters(
  pair: Pair,
  { settings }: Variant,
  plans: Plan[],
  aside: Set<string>,
  tally: Tally,
): Promise<void> {
  const [ours, reference] = await Promise.all([pair.contents('ours'), pair.contents('reference')])
  const wrong: string[] = []
  for (const key of new Set([...ours.keys(), ...reference.keys()])) {
    if (aside.has(TAG.exec(key)?.[0] ?? '')) continue
    tally.counters++
    const [mine, theirs] = [ours.get(key), reference.get(key)]
    if (mine === theirs || ((mine === undefined || theirs === undefined) && mayHaveExpired(key))) continue
    wrong.push(`${JSON.stringify(key)}: ours ${mine}, reference ${theirs}`)
  }
  if (wrong.length === 0 || isFull(tally)) return
  const first = plans.find(({ tag }) => wrong[0].includes(tag)) // one lane's rules are enough to read
  tally.failures.push(countersFailure('counters in Redis', wrong, settings, first?.rules ?? []))
}

/** Windows of seconds and minutes may end before we look; ours with the first hit's expiry, theirs with the last's. */
function mayHaveExpired(key: string): boolean {
  const start = Number(/\d+$/.exec(key)?.[0])
  return start % 3600 !== 0 && Date.now() / 1000 >= start + (start % 60 === 0 ? 60 : 1)
}
