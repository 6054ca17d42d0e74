/** The command line of `npm run compare`. */
import { fileURLToPath } from 'node:url'
import { ConfigurationError } from '../../engine/runtime/errors.ts'

/** A service that runs already. */
export interface Given {
  endpoint: string
  cpu: string[] // `name=pid`, as `npm run load` takes them
}

export interface Options {
  given: { a: Given; b: Given } | null // null: compare starts both
  reference: string // program of envoyproxy/ratelimit; '' = none
  sluice: string // scripts/sluice.ts of the checkout that is A
  over: 'grpc' | 'json'
  store: 'redis' | 'memory' // of Sluice, when compare starts it
  workloads: string[] // empty: the usual ones
  rounds: number
  windowMs: number
  calls: string
  warmupMs: number
  keys: string
  descriptors: string
  deadline: string
  out: string // rows are appended here; '' = nowhere
}

export const USAGE = `Compares two rate limit services, or envoyproxy/ratelimit with Sluice, in alternating rounds: A B A B.

usage: npm run compare -- --a ENDPOINT[,name=pid...] --b ENDPOINT[,name=pid...] [flags]
       npm run compare -- --reference PROGRAM [flags]

  --a, --b SERVICE       grpc://127.0.0.1:8081,server=123,redis=456: where it is, and processes to account for
  --reference PROGRAM    start Sluice as A, this program as B and a Redis for each; stop them at the end
  --sluice FILE          with --reference: scripts/sluice.ts of another checkout (default: of this one)
  --workload LIST        4x16 (connections x streams), open:20000 (calls per second), open:50% (of the throughput of B in
                         4x16); default 4x16,64x1,1x1, with --reference also open:25%,open:50%,open:75%
  --rounds N             windows of each per workload (default 3)
  --window TIME          of one window (default 3s)
  --calls N              end a window after this many calls, if --window is not over before (default 0: never)
  --warmup TIME          before each window (default 3s)
  --keys, --descriptors, --deadline   as npm run load has them (default zipf:100000, 2, none)
  --over grpc|json       with --reference: the protocol (default grpc)
  --store redis|memory   with --reference: the store of Sluice (default redis)
  --out FILE             append one JSON line per workload, e.g. bench/results/compare.jsonl
  --help                 this text
`

const SLUICE = fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))

type Texts = Record<string, string>

const DEFAULTS: Texts = {
  a: '',
  b: '',
  reference: '',
  sluice: SLUICE,
  workload: '',
  rounds: '3',
  window: '3s',
  calls: '0',
  warmup: '3s',
  keys: 'zipf:100000',
  descriptors: '2',
  deadline: 'none',
  over: 'grpc',
  store: 'redis',
  out: '',
}
const ROUNDS_MAX = 100

export function parseOptions(args: string[]): Options {
  const texts = readFlags(args)
  const { a, b, reference, sluice, keys, descriptors, deadline, out } = texts
  if ((reference === '') === (a === '' || b === '')) {
    throw usageError('npm run compare', 'what to compare is unclear.', 'Give --a and --b, or --reference.')
  }
  const workloads = texts.workload === '' ? [] : texts.workload.split(',')
  const unknown = workloads.find((each) => !/^(\d+x\d+|open:\d+%?)$/.test(each))
  if (unknown !== undefined) {
    throw usageError('--workload', `"${unknown}" is not understood.`, 'Write 4x16, open:20000 or open:50%.')
  }
  return {
    given: reference === '' ? { a: readGiven('a', a), b: readGiven('b', b) } : null,
    reference,
    sluice,
    over: parseWord('over', texts.over, ['grpc', 'json']),
    store: parseWord('store', texts.store, ['redis', 'memory']),
    workloads,
    rounds: readRounds(texts.rounds),
    windowMs: readTime('window', texts.window),
    calls: texts.calls,
    warmupMs: readTime('warmup', texts.warmup),
    keys,
    descriptors,
    deadline,
    out,
  }
}

function readFlags(args: string[]): Texts {
  const texts = { ...DEFAULTS }
  for (let i = 0; i < args.length; i++) {
    const [, name = '', inline] = /^--([a-z]+)(?:=(.*))?$/s.exec(args[i]) ?? []
    if (!Object.hasOwn(DEFAULTS, name))
      throw usageError(args[i], 'is no flag of this command.', 'See --help.')
    const text = inline ?? args[++i]
    if (text === undefined) throw usageError(`--${name}`, 'needs a value.', 'See --help.')
    texts[name] = text
  }
  return texts
}

function readGiven(name: string, text: string): Given {
  const [endpoint, ...cpu] = text.split(',')
  const isRight = /^(grpc|http):\/\//.test(endpoint) && cpu.every((each) => /^[\w.-]+=\d+$/.test(each))
  if (isRight) return { endpoint, cpu }
  throw usageError(
    `--${name}`,
    `"${text}" is not understood.`,
    'Write grpc://host:port,server=pid,redis=pid.',
  )
}

function parseWord<T extends string>(name: string, text: string, right: T[]): T {
  const found = right.find((each) => each === text)
  if (found !== undefined) return found
  throw usageError(`--${name}`, `"${text}" is not understood.`, `Write ${right.join(' or ')}.`)
}

function readRounds(text: string): number {
  const rounds = Number(text)
  if (Number.isInteger(rounds) && rounds >= 1 && rounds <= ROUNDS_MAX) return rounds
  throw usageError(
    '--rounds',
    `"${text}" is not understood.`,
    `Write a whole number from 1 to ${ROUNDS_MAX}.`,
  )
}

function readTime(name: string, text: string): number {
  const [, digits, unit] = /^(\d+)(ms|s)$/.exec(text) ?? []
  if (digits !== undefined) return Number(digits) * (unit === 's' ? 1_000 : 1)
  throw usageError(`--${name}`, `"${text}" is not understood.`, 'Write a time such as 500ms or 3s.')
}

function usageError(where: string, what: string, fix: string): ConfigurationError {
  return new ConfigurationError({ code: 'COMPARE_USAGE', where, what, fix, exitCode: 2 })
}
