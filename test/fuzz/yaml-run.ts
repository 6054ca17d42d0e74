/**
 * A thread that loads mutated rule files, so that the test can terminate it when a load never ends. Posts the result of
 * each batch, or the first problem at once.
 */
import { parentPort, workerData } from 'node:worker_threads'
import { seeded } from '../../bench/size.ts'
import { ConfigError } from '../../engine/config/error.ts'
import { lint } from '../../engine/config/lint.ts'
import { LintWarnings } from '../../engine/config/lint-warnings.ts'
import { toCompositeKey } from '../../engine/config/patterns.ts'
import { readDraft } from '../../engine/config/read.ts'
import type { Match, RuleDomain, RuleNode } from '../../engine/config/rules.ts'
import { validate } from '../../engine/config/validate.ts'
import { compile } from '../../engine/match/compile.ts'
import { Trie } from '../../engine/match/trie.ts'
import type { Entry } from '../../proto/ratelimit.ts'
import { naiveMatch } from '../engine/match/naive.ts'
import { damagedFile, originals } from './yaml-files.ts'

export interface FuzzTask {
  seed: number
  from: number
  to: number
}

export interface FuzzResult {
  done: number // files so far
  accepted: number // of these
  withRules: number // of these
  matched: number // requests that found a rule
  slowestMs: number
  slowest: number // file
  problem: string // '' or what, and in which file
}

const BATCH = 100
const REQUESTS_MAX = 40 // per domain of a file
const FILE = 'f.yaml'

/** Every error text of a load (spec 1.2 to 1.4, and the bounds), behind `<file>: `. */
// biome-ignore format: one alternative per text
const SPECIFIED = new RegExp(`^${FILE}: (${[
  'error loading config file: yaml: ', 'config error, key is not of type string: ', 'config error, unknown key \'',
  'config error, yaml file contains list of type other than map: ', 'error checking config', 'config file cannot have empty domain',
  'descriptor has empty key', 'duplicate descriptor composite key \'', 'should not specify rate limit unit when unlimited',
  'invalid rate limit unit \'', 'should not have an empty replaces entry', 'replaces should not contain name of same descriptor',
  'share_threshold can only be used with wildcard values', 'error parsing metadata: ', 'more than \\d+ descriptors',
  'descriptors are nested more than ',
].join('|')})`)

const { seed, from, to } = workerData as FuzzTask
const result: FuzzResult = {
  done: 0,
  accepted: 0,
  withRules: 0,
  matched: 0,
  slowestMs: 0,
  slowest: 0,
  problem: '',
}
const real = originals()
for (let index = from; index < to && result.problem === ''; index++) {
  const bytes = damagedFile(seed, index, real)
  const startMs = performance.now()
  try {
    const domains = load(bytes)
    if (domains) matchAll(domains, seeded(seed + index))
  } catch (error) {
    result.problem = `file ${index} of seed ${seed}: ${error instanceof Error ? error.stack : error}\n${bytes.toString('latin1')}`
  }
  const tookMs = performance.now() - startMs
  if (tookMs > result.slowestMs) Object.assign(result, { slowestMs: tookMs, slowest: index })
  result.done++
  if (result.done % BATCH === 0) parentPort!.postMessage(result)
}
parentPort!.postMessage(result)

/** The rules of a file, or null after a specified error. */
function load(bytes: Buffer): RuleDomain[] | null {
  const warnings = new LintWarnings()
  try {
    const domains = validate([readDraft(FILE, bytes, warnings)], { isMerging: false })
    lint(domains, warnings)
    warnings.texts()
    result.accepted++
    return domains
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    if (!SPECIFIED.test(error.message)) throw new Error(`an unspecified error: ${error.message}`)
    return null
  }
}

/** Matches descriptors that the rules name, and others: the trie must agree with the specification. */
function matchAll(domains: RuleDomain[], random: () => number): void {
  const image = compile(domains)
  const trie = new Trie(image)
  String(trie)
  if (image.rulesCount > 0) result.withRules++
  const out: Match = { rule: null, statsKey: '', sharedValues: [] }
  for (const { name, nodes } of domains) {
    const isText = name.isWellFormed()
    for (const entries of requestsFor(nodes, random).slice(0, REQUESTS_MAX)) {
      const isFound = trie.match(trie.domain(name), entries, out)
      const expected = isText ? naiveMatch(domains, name, entries) : null
      const found = isFound ? `${out.rule!.path} as ${out.statsKey}` : 'nothing'
      const expectedText = expected ? `${expected.path} as ${expected.statsKey}` : 'nothing'
      if (found !== expectedText && entries.every(isWellFormed)) {
        throw new Error(`${JSON.stringify(entries)} finds ${found}, not ${expectedText}`)
      }
      if (isFound) result.matched++
    }
  }
}

function isWellFormed({ key, value }: Entry): boolean {
  return key.isWellFormed() && value.isWellFormed()
}

function requestsFor(siblings: RuleNode[], random: () => number): Entry[][] {
  return siblings.flatMap((node) => {
    const text = toCompositeKey(node).replaceAll('*', () => (random() < 0.5 ? '' : 'x'))
    const split = node.value === '' || random() < 0.1 ? text.length : node.key.length
    const entry = { key: text.slice(0, split), value: text.slice(split + 1) }
    const below = requestsFor(node.children, random).map((entries) => [entry, ...entries])
    return [[entry], ...below]
  })
}
