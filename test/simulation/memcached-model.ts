/** A model of the part of memcached that the store uses: gets, incr, add and version of the text protocol. Items expire by its own clock. */
import type { Executions } from './executions.ts'
import type { Inbox, Protocol } from './network.ts'

interface Item {
  count: number
  expiresMs: number
}

export class MemcachedModel implements Protocol {
  /** Share of commands that get a SERVER_ERROR and are not run. */
  failingShare = 0
  private readonly items = new Map<string, Item>()
  private readonly executions: Executions
  private readonly nowMs: () => number
  private readonly draw: () => number // 0 to below 1

  constructor(executions: Executions, nowMs: () => number, draw: () => number) {
    this.executions = executions
    this.nowMs = nowMs
    this.draw = draw
  }

  restart(): void {
    this.items.clear()
  }

  evict(share: number): void {
    for (const key of [...this.items.keys()]) if (this.draw() < share) this.items.delete(key)
  }

  read(inbox: Inbox, bytes: Buffer): Buffer {
    let text = Buffer.concat([inbox.partial, bytes]).toString('latin1')
    let replies = ''
    for (let end = text.indexOf('\r\n'); end >= 0; end = text.indexOf('\r\n')) {
      const words = text.slice(0, end).split(' ')
      let next = end + 2
      let value = ''
      if (words[0] === 'add') {
        const valueEnd = next + Number(words[4])
        if (text.length < valueEnd + 2) break
        value = text.slice(next, valueEnd)
        next = valueEnd + 2
      }
      replies += `${this.run(words, value)}\r\n`
      text = text.slice(next)
    }
    inbox.partial = Buffer.from(text, 'latin1')
    return Buffer.from(replies, 'latin1')
  }

  private run([name, ...args]: string[], value: string): string {
    if (this.draw() < this.failingShare) return 'SERVER_ERROR out of memory storing object'
    if (name === 'gets') return this.gets(args)
    if (name === 'incr') return this.incr(args[0], Number(args[1]))
    if (name === 'add') return this.addNew(args[0], Number(args[2]), Number(value))
    if (name === 'version') return 'VERSION 1.6.0'
    throw new Error(`unknown command ${name}`)
  }

  private gets(keys: string[]): string {
    const values = keys.flatMap((key) => {
      const item = this.find(key)
      return item === undefined ? [] : [`VALUE ${key} 0 ${String(item.count).length} 7\r\n${item.count}\r\n`]
    })
    return `${values.join('')}END`
  }

  private incr(key: string, hits: number): string {
    const item = this.find(key)
    if (item === undefined) return 'NOT_FOUND'
    this.count(key, item.count, hits)
    item.count += hits
    return String(item.count)
  }

  /** `expiry` in seconds; the simulated windows are shorter than 30 days. */
  private addNew(key: string, expiry: number, hits: number): string {
    if (this.find(key) !== undefined) return 'NOT_STORED'
    this.items.set(key, { count: hits, expiresMs: this.nowMs() + 1_000 * expiry })
    this.executions.addExpiry(key, expiry)
    this.count(key, 0, hits)
    return 'STORED'
  }

  private count(key: string, before: number, hits: number): void {
    if (hits > 0) this.executions.add(key, { hits, before, atMs: this.nowMs() })
  }

  private find(key: string): Item | undefined {
    const item = this.items.get(key)
    if (item === undefined || item.expiresMs > this.nowMs()) return item
    this.items.delete(key)
    return undefined
  }
}
