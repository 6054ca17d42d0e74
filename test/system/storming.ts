/**
 * Rules that tell from which version they are, and a load that asks for it.
 *
 *     version n is two files      left.yaml             right.yaml        of one domain (MERGE_DOMAIN_CONFIG)
 *     with one limit, BASE + n      leftHead  BASE+n      rightHead  BASE+n
 *     in their first and            …                     …
 *     last rules                    leftTail  BASE+n      rightTail  BASE+n
 *
 * One request asks all four: equal limits are one version, a head without its tail is half a file.
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { GrpcClient } from '../helpers/grpc.ts'
import type { RunningService } from '../helpers/service.ts'

const LANES = 4 // of each protocol, a connection each, so that both workers have some
const PAUSE_MS = 3 // of a lane after each answer: the load is light, and there all the time
const BASE = 1_000_000_000 // per year, so nobody is ever over
const FILLERS = 20
const KEYS = ['leftHead', 'leftTail', 'rightHead', 'rightTail']

/** Name and text. */
export type Files = [string, string][]

/** Each line from the third on is a rule, so what a file holds up to any of their ends is rules too. */
export function filesOf(version: number): Files {
  const rule = (key: string) =>
    `  - { key: ${key}, rate_limit: { unit: year, requests_per_unit: ${BASE + version} } }\n`
  return ['left', 'right'].map((side) => {
    const fillers = Array.from({ length: FILLERS }, (_, i) => rule(`${side}Filler${i}`))
    const rules = [rule(`${side}Head`), ...fillers, rule(`${side}Tail`)]
    return [`${side}.yaml`, `domain: storm\ndescriptors:\n${rules.join('')}`]
  })
}

const BREAKS = [
  (text: string) => `${text}  - { key: `,
  (text: string) => text.replace('unit: year', 'unit: fortnight'),
  (text: string) => `${text}  - { key: leftHead }\n  - { key: rightHead }\n`, // one of them is there already
  () => '',
]

/** The version with a mistake in its last file. */
export function brokenFilesOf(version: number, random: () => number): Files {
  const [left, [name, text]] = filesOf(version)
  return [left, [name, BREAKS[Math.floor(random() * BREAKS.length)](text)]]
}

export class Load {
  readonly answers = new Map<string, number>() // `3,3,3,3`: the versions of KEYS, `-` where no rule was met → how often
  readonly failures: string[] = []
  private readonly latest = new Map<number, string>() // lane → its latest answer
  private readonly lanes: Promise<void>[]
  private isOver = false

  constructor(service: RunningService) {
    this.lanes = Array.from({ length: 2 * LANES }, (_, lane) =>
      this.run(lane, lane < LANES ? overGrpc(service) : overJson(service)),
    )
  }

  /** Whether this is what each lane was answered last. */
  isOnly(version: number): boolean {
    const wanted = KEYS.map(() => version).join()
    return this.latest.size === 2 * LANES && [...this.latest.values()].every((answer) => answer === wanted)
  }

  async end(): Promise<void> {
    this.isOver = true
    await Promise.all(this.lanes)
  }

  private async run(lane: number, { ask, close }: Asking): Promise<void> {
    while (!this.isOver) {
      try {
        const answer = (await ask()).map((limit) => (limit === undefined ? '-' : limit - BASE)).join()
        this.answers.set(answer, (this.answers.get(answer) ?? 0) + 1)
        this.latest.set(lane, answer)
      } catch (error) {
        this.failures.push(String(error))
      }
      await sleep(PAUSE_MS)
    }
    close()
  }
}

/** Yields the limits of KEYS; rejects when the request fails. */
interface Asking {
  ask: () => Promise<(number | undefined)[]>
  close: () => void
}

const QUESTION: RateLimitRequest = {
  domain: 'storm',
  descriptors: KEYS.map((key) => ({ entries: [{ key, value: 'any' }], limit: null, hitsAddend: null })),
  hitsAddend: 0,
}

function overGrpc(service: RunningService): Asking {
  const client = new GrpcClient(service.address('gRPC'))
  return {
    ask: async () =>
      (await client.ask(QUESTION)).statuses.map((status) => status.currentLimit?.requestsPerUnit),
    close: () => client.close(),
  }
}

function overJson(service: RunningService): Asking {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const { domain, descriptors } = QUESTION
  const body = JSON.stringify({ domain, descriptors: descriptors.map(({ entries }) => ({ entries })) })
  return { ask: () => post(`${service.http}/json`, agent, body), close: () => agent.destroy() }
}

function post(url: string, agent: Agent, body: string): Promise<(number | undefined)[]> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { method: 'POST', agent }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => {
        if (response.statusCode !== 200) return reject(new Error(`${response.statusCode} ${text}`))
        const { statuses } = JSON.parse(text) as Answer
        resolve(statuses.map((status) => status.currentLimit?.requestsPerUnit))
      })
    })
    asking.on('error', reject).end(body)
  })
}

interface Answer {
  statuses: { currentLimit?: { requestsPerUnit: number } }[]
}
