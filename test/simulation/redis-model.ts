/**
 * A model of the part of Redis that the store uses: PING, INCRBY, EXPIRE, TTL, GET, EVAL and EVALSHA of add-hits.lua; RESP in and out.
 * Keys expire by the server's own clock. The script is modelled by its description, not run.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import type { Executions } from './executions.ts'
import type { Inbox, Protocol } from './network.ts'

const SCRIPT_TEXT = readFileSync(new URL('../../engine/stores/redis/add-hits.lua', import.meta.url), 'utf8')
const SCRIPT_SHA = createHash('sha1').update(SCRIPT_TEXT).digest('hex')

interface Item {
  count: number
  expiresMs: number // Infinity = never
}

class RedisError {
  readonly text: string

  constructor(text: string) {
    this.text = text
  }
}

type Result = number | string | null | RedisError | Result[]

/** Some commands are answered with an error and not run. */
export interface RedisFailing {
  text: string
  commands: readonly string[] // names; empty = all
  share: number // of them
}

export class RedisModel implements Protocol {
  failing: RedisFailing | null = null
  private readonly items = new Map<string, Item>()
  private readonly executions: Executions
  private readonly nowMs: () => number
  private readonly draw: () => number // 0 to below 1
  private hasScript = false

  constructor(executions: Executions, nowMs: () => number, draw: () => number) {
    this.executions = executions
    this.nowMs = nowMs
    this.draw = draw
  }

  restart(): void {
    this.items.clear()
    this.hasScript = false
  }

  flushScripts(): void {
    this.hasScript = false
  }

  /** Deletes some keys, as an eviction does. */
  evict(share: number): void {
    for (const key of [...this.items.keys()]) if (this.draw() < share) this.items.delete(key)
  }

  /** Keys that never expire. */
  get keptKeys(): string[] {
    return [...this.items].flatMap(([key, { expiresMs }]) =>
      expiresMs === Number.POSITIVE_INFINITY ? [key] : [],
    )
  }

  read(inbox: Inbox, bytes: Buffer): Buffer {
    let text = Buffer.concat([inbox.partial, bytes]).toString('latin1')
    let replies = ''
    for (let command = readCommand(text); command !== null; command = readCommand(text)) {
      text = text.slice(command.size)
      replies += toResp(this.run(command.args))
    }
    inbox.partial = Buffer.from(text, 'latin1')
    return Buffer.from(replies, 'latin1')
  }

  private run(args: readonly string[]): Result {
    const [name, ...rest] = args
    if (name === 'EVAL' || name === 'EVALSHA') {
      const error = this.failingBy(name)
      return error ?? this.runScript(name, rest)
    }
    return this.call(name, rest)
  }

  /** One command, from a connection or from the script. */
  private call(name: string, args: readonly string[]): Result {
    const error = this.failingBy(name)
    if (error !== null) return error
    const [key, argument] = args
    if (name === 'PING') return 'PONG'
    if (name === 'INCRBY') return this.incrby(key, Number(argument))
    if (name === 'GET') return this.find(key) === undefined ? null : String(this.find(key)!.count)
    if (name === 'EXPIRE') return this.expire(key, Number(argument))
    if (name === 'TTL') return this.ttl(key)
    return new RedisError(`ERR unknown command '${name}'`)
  }

  private failingBy(name: string): RedisError | null {
    const { failing } = this
    if (failing === null || (failing.commands.length > 0 && !failing.commands.includes(name))) return null
    return this.draw() < failing.share ? new RedisError(failing.text) : null
  }

  private find(key: string): Item | undefined {
    const item = this.items.get(key)
    if (item === undefined || item.expiresMs > this.nowMs()) return item
    this.items.delete(key)
    return undefined
  }

  private incrby(key: string, hits: number): number {
    const item = this.find(key) ?? { count: 0, expiresMs: Number.POSITIVE_INFINITY }
    this.items.set(key, item)
    if (hits > 0) this.executions.add(key, { hits, before: item.count, atMs: this.nowMs() })
    item.count += hits
    return item.count
  }

  private expire(key: string, sec: number): number {
    const item = this.find(key)
    if (item === undefined) return 0
    item.expiresMs = this.nowMs() + 1_000 * sec
    this.executions.addExpiry(key, sec)
    return 1
  }

  private ttl(key: string): number {
    const item = this.find(key)
    if (item === undefined) return -2
    return item.expiresMs === Number.POSITIVE_INFINITY
      ? -1
      : Math.ceil((item.expiresMs - this.nowMs()) / 1_000)
  }

  /** add-hits.lua: KEYS, then hits and expiry per key, limits, which are tolerated, and the last key of each request. */
  private runScript(name: string, [script, keysCount, ...rest]: readonly string[]): Result {
    if (name === 'EVAL' && script !== SCRIPT_TEXT) return new RedisError('ERR another script')
    if (name === 'EVALSHA' && (script !== SCRIPT_SHA || !this.hasScript))
      return new RedisError('NOSCRIPT No matching script. Please use EVAL.')
    this.hasScript = true
    const n = Number(keysCount)
    const keys = rest.slice(0, n)
    const argv = rest.slice(n)
    const befores: Result[] = []
    let first = 0
    for (const last of argv.slice(3 * n + 1).map(Number)) {
      this.addRequest(keys, argv, first, last, befores)
      first = last
    }
    return befores
  }

  private addRequest(keys: string[], argv: string[], first: number, end: number, befores: Result[]): void {
    const counts: number[] = []
    const hits = (i: number) => Number(argv[2 * i])
    const isAbove = (i: number) => counts[i] + hits(i) > Number(argv[2 * keys.length + i])
    let isUnreadable = false
    for (let i = first; i < end; i++) {
      const count = this.call('GET', [keys[i]])
      if (count instanceof RedisError) {
        isUnreadable ||= argv[3 * keys.length][i] === '0'
        befores[i] = count.text
      } else counts[i] = Number(count ?? 0)
    }
    const isOver = !isUnreadable && counts.some((count, i) => count !== undefined && isAbove(i))
    for (let i = first; i < end; i++) {
      if (isUnreadable || befores[i] !== undefined) befores[i] ??= counts[i] - hits(i)
      else if (isOver && !isAbove(i)) {
        const before = this.addTo(keys[i], 0, argv[2 * i + 1])
        befores[i] = typeof before === 'number' ? before - hits(i) : before
      } else befores[i] = this.addTo(keys[i], hits(i), argv[2 * i + 1])
    }
  }

  private addTo(key: string, hits: number, expiry: string): Result {
    const count = this.call('INCRBY', [key, String(hits)])
    if (count instanceof RedisError) return count.text
    const before = Number(count) - hits
    if (before === 0 && (hits > 0 || this.call('TTL', [key]) === -1)) {
      const expired = this.call('EXPIRE', [key, expiry])
      if (expired instanceof RedisError) return `EXPIRE: ${expired.text}`
    }
    return before
  }
}

/** The first command of a text, an array of bulk strings; null = it is incomplete. */
function readCommand(text: string): { args: string[]; size: number } | null {
  const head = /^\*(\d+)\r\n/.exec(text)
  if (head === null) return null
  const args: string[] = []
  let at = head[0].length
  for (let i = 0; i < Number(head[1]); i++) {
    const lineEnd = text.indexOf('\r\n', at)
    if (lineEnd < 0) return null
    if (text[at] !== '$') throw new Error(`not a command: ${JSON.stringify(text.slice(0, 200))}`)
    const end = lineEnd + 2 + Number(text.slice(at + 1, lineEnd))
    if (end + 2 > text.length) return null
    if (text.slice(end, end + 2) !== '\r\n')
      throw new Error(`a damaged command: ${JSON.stringify(text.slice(0, 200))}`)
    args.push(text.slice(lineEnd + 2, end))
    at = end + 2
  }
  return { args, size: at }
}

function toResp(result: Result): string {
  if (result === null) return '$-1\r\n'
  if (typeof result === 'number') return `:${result}\r\n`
  if (result instanceof RedisError) return `-${result.text}\r\n`
  if (Array.isArray(result)) return `*${result.length}\r\n${result.map((each) => toResp(each)).join('')}`
  return result === 'PONG' ? '+PONG\r\n' : `$${result.length}\r\n${result}\r\n`
}
