/**
 * Rules that show from which version they are, and a load that reads the version.
 *
 *     version n is two files      left.yaml             right.yaml        of one domain (MERGE_DOMAIN_CONFIG)
 *     with one limit, BASE + n      leftHead  BASE+n      rightHead  BASE+n
 *     in their first and            …                     …
 *     last rules                    leftTail  BASE+n      rightTail  BASE+n
 *
 * One request has all four keys: equal limits are one version, a head without its tail is half a file.
 */
import { Agent, request } from 'node:http'
import { setTimeout as sleep } from 'node:timers/promises'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'
import { GrpcClient } from '../helpers/grpc.ts'
import type { RunningService } from '../helpers/service.ts'

const LANES = 4 // of each protocol, a connection each, so that both workers have some
const PAUSE_MS = 3 // of a lane after each response: the load is light and steady
const BASE = 1_000_000_000 // per year, so no request is over the limit
const FILLERS = 20
const KEYS = ['leftHead', 'leftTail', 'rightHead', 'rightTail']

/** Name and text. */
export type Files = [string, string][]

/** Each line from the third on is one rule, so a file that is cut after any of them is valid. */
export function createFiles(version: number): Files {
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
  (text: string) => `${text}  - { key: leftHead }\n  - { key: rightHead }\n`, // one of them is a duplicate
  () => '',
]

/** The same with a mistake in the last file. */
export function createBrokenFiles(version: number, random: () => number): Files {
  const [left, [name, text]] = createFiles(version)
  return [left, [name, BREAKS[Math.floor(random() * BREAKS.length)](text)]]
}

export class Load {
  readonly responses = new Map<string, number>() // `3,3,3,3`: the versions of KEYS, `-` where no rule matched → how often
  readonly failures: string[] = []
  private readonly latest = new Map<number, string>() // lane → its latest response
  private readonly lanes: Promise<void>[]
  private isOver = false

  constructor(service: RunningService) {
    this.lanes = Array.from({ length: 2 * LANES }, (_, lane) =>
      this.run(lane, lane < LANES ? openGrpc(service) : openJson(service)),
    )
  }

  /** Whether the latest response of every lane is of this version. */
  isOnly(version: number): boolean {
    const wanted = KEYS.map(() => version).join()
    return (
      this.latest.size === 2 * LANES && [...this.latest.values()].every((response) => response === wanted)
    )
  }

  async end(): Promise<void> {
    this.isOver = true
    await Promise.all(this.lanes)
  }

  private async run(lane: number, { readLimits, close }: Connection): Promise<void> {
    while (!this.isOver) {
      try {
        const limits = await readLimits()
        const response = limits.map((limit) => (limit === undefined ? '-' : limit - BASE)).join()
        this.responses.set(response, (this.responses.get(response) ?? 0) + 1)
        this.latest.set(lane, response)
      } catch (error) {
        this.failures.push(String(error))
      }
      await sleep(PAUSE_MS)
    }
    close()
  }
}

interface Connection {
  /** Resolves to the limits of KEYS; rejects when the request fails. */
  readLimits: () => Promise<(number | undefined)[]>
  close: () => void
}

const REQUEST: RateLimitRequest = {
  domain: 'storm',
  descriptors: KEYS.map((key) => ({ entries: [{ key, value: 'any' }], limit: null, hitsAddend: null })),
  hitsAddend: 0,
}

function openGrpc(service: RunningService): Connection {
  const client = new GrpcClient(service.address('gRPC'))
  return {
    readLimits: async () =>
      (await client.ask(REQUEST)).statuses.map((status) => status.currentLimit?.requestsPerUnit),
    close: () => client.close(),
  }
}

function openJson(service: RunningService): Connection {
  const agent = new Agent({ keepAlive: true, maxSockets: 1 })
  const { domain, descriptors } = REQUEST
  const body = JSON.stringify({ domain, descriptors: descriptors.map(({ entries }) => ({ entries })) })
  return { readLimits: () => post(`${service.http}/json`, agent, body), close: () => agent.destroy() }
}

function post(url: string, agent: Agent, body: string): Promise<(number | undefined)[]> {
  return new Promise((resolve, reject) => {
    const outgoing = request(url, { method: 'POST', agent }, (response) => {
      let text = ''
      response.setEncoding('utf8').on('data', (chunk) => {
        text += chunk
      })
      response.on('end', () => {
        if (response.statusCode !== 200) return reject(new Error(`${response.statusCode} ${text}`))
        const { statuses } = JSON.parse(text) as JsonResponse
        resolve(statuses.map((status) => status.currentLimit?.requestsPerUnit))
      })
    })
    outgoing.on('error', reject).end(body)
  })
}

interface JsonResponse {
  statuses: { currentLimit?: { requestsPerUnit: number } }[]
}
