/**
 * Resolves descriptors: finds the rule (spec 2.1, 2.2) and builds what counting needs.
 *
 *     JSON   Descriptor ── written as bytes ─┐
 *     gRPC   bytes ──────────────────────────┴─► cached? ── yes ─────────────────────────────► ResolvedDescriptor
 *                                                  └ no ──► plain? ── yes ─► match on bytes ─► ResolvedDescriptor, maybe cached
 *                                                             └ no ──► Descriptor ─► match ──► ResolvedDescriptor, maybe cached
 */
import { decodeDescriptor, decodeText } from '../../proto/codec.ts'
import { writePlainDescriptor } from '../../proto/plain-descriptor.ts'
import type { Descriptor, Unit } from '../../proto/ratelimit.ts'
import type { RequestParts } from '../../proto/request-parts.ts'
import type { Match, Rule, RulesImage, StoreErrorPolicy } from '../config/rules.ts'
import { NO_RULE, NOT_PLAIN, Trie } from '../match/trie.ts'
import { ServiceError } from '../runtime/errors.ts'
import type { Stats } from '../stats/stats.ts'
import { Counter } from '../stores/counter.ts'
import { PUBLIC_DOMAIN } from '../stores/memory/table-layout.ts'
import { DescriptorCache } from './descriptor-cache.ts'
import { nearLimit } from './evaluate-limit.ts'
import { KeyBytes } from './key-bytes.ts'
import { NO_RULE_DESCRIPTOR, ResolvedDescriptor } from './resolved-descriptor.ts'
import { unitSec, windowStartSec } from './window.ts'

const HITS_MAX = 2n ** 63n - 1n // largest count in Redis; above it, counts would wrap (Q42)

const WRITTEN_BYTES = 1_024

export interface DescriptorResolverOptions {
  stats: Stats
  nearLimitRatio: number // 0 to 1, taken as a 32-bit float (spec 4.4)
  keyPrefix: string // CACHE_KEY_PREFIX
  policyOnError?: StoreErrorPolicy | null // of rules without one of their own; default null = the store cannot fail
}

export class DescriptorResolver {
  private readonly options: DescriptorResolverOptions
  private readonly found: Match = { rule: null, statsKey: '', sharedValues: [] }
  private readonly cache = new DescriptorCache()
  private readonly key = new KeyBytes()
  private readonly written = Buffer.alloc(WRITTEN_BYTES) // a domain, followed by one descriptor
  private writtenDomain = ''
  private writtenEnd = 0
  private trie: Trie | null = null
  private statsBases = new Int32Array() // by rule id, -1 = unknown; saves a Map look-up per new descriptor
  private bytes: Uint8Array = new Uint8Array() // of the current request
  private nowSec = 0
  private domain = '' // its domain; '' = not read yet
  private domainNode = -1

  constructor(options: DescriptorResolverOptions) {
    this.options = options
  }

  get hasRules(): boolean {
    return this.trie !== null
  }

  setRules(image: RulesImage): void {
    this.trie = new Trie(image)
    this.statsBases = new Int32Array(image.rulesCount).fill(-1)
    this.cache.clear()
    this.domain = ''
  }

  /** Sets the request whose descriptors are resolved next, as bytes. Requires rules. */
  setRequest(bytes: Uint8Array, parts: RequestParts, nowSec: number): void {
    this.bytes = bytes
    this.nowSec = nowSec
    if (!this.cache.setDomain(bytes, parts.domainStart, parts.domainEnd)) this.domain = ''
  }

  /** Resolves one descriptor of that request. Throws a ServiceError, or MalformedRequest. */
  resolvePart(parts: RequestParts, i: number): ResolvedDescriptor {
    const { bytes, cache } = this
    const start = parts.starts[i]
    const end = parts.ends[i]
    const known = cache.find(bytes, start, end)
    if (known !== null) return known
    if (this.domain === '') this.readDomain(decodeText(bytes, parts.domainStart, parts.domainEnd))
    const plain = this.resolvePlain(start, end)
    const descriptor = plain === null ? decodeDescriptor(bytes, start, end) : null
    const resolved = plain ?? this.resolve(this.domain, descriptor!)
    if (descriptor === null || descriptor.limit === null) cache.set(resolved) // hits of an override renew the expiry
    return resolved
  }

  /** Sets the domain of a decoded request whose descriptors are resolved next. */
  setDomain(name: string, nowSec: number): void {
    const { written } = this
    this.nowSec = nowSec
    if (name !== this.writtenDomain) {
      this.writtenDomain = name
      this.writtenEnd = name.length < WRITTEN_BYTES / 2 ? written.write(name) : 0 // 0 = too long to be cached
    }
    this.bytes = written
    if (this.cache.setDomain(written, 0, this.writtenEnd) && this.domain !== '') return
    if (this.trie !== null) this.readDomain(name)
  }

  /** Resolves one descriptor of that request. Throws a ServiceError. */
  resolveDescriptor(descriptor: Descriptor): ResolvedDescriptor {
    const { cache, written, writtenEnd } = this
    const end = writtenEnd === 0 ? -1 : writePlainDescriptor(descriptor, written, writtenEnd)
    if (end === -1 || this.trie === null) return this.resolve(this.writtenDomain, descriptor)
    const known = cache.find(written, writtenEnd, end)
    if (known !== null) return known
    const resolved = this.resolvePlain(writtenEnd, end) ?? this.resolve(this.writtenDomain, descriptor)
    cache.set(resolved)
    return resolved
  }

  private readDomain(name: string): void {
    this.domain = name
    this.domainNode = this.trie!.domain(name)
    this.key.setDomain(`${this.options.keyPrefix}${name}_`)
  }

  /** Resolves without decoding texts; null if that is not possible. */
  private resolvePlain(start: number, end: number): ResolvedDescriptor | null {
    const { key, trie, domainNode } = this
    const { nearLimitRatio } = this.options
    if (domainNode < 0 || !key.read(this.bytes, start, end)) return null
    const id = trie!.matchPlain(domainNode, key)
    if (id === NOT_PLAIN) return null
    if (id === NO_RULE) return NO_RULE_DESCRIPTOR
    const rule = trie!.rule(id)
    if (rule.isUnlimited) return null
    const windowStart = windowStartSec(this.nowSec, unitSec(rule.limit.unit))
    const text = key.text(windowStart)
    const isPublic = this.domain === PUBLIC_DOMAIN
    return new ResolvedDescriptor({
      rule,
      near: nearLimit(rule.limit.requestsPerUnit, nearLimitRatio),
      statsBase: this.getStatsBase(rule),
      missStat: -1,
      hits: null,
      keyBase: text.slice(0, key.end),
      isPublic,
      windowStart,
      counter: new Counter(text, text.length, isPublic),
    })
  }

  private getPolicy({ onStoreError }: Rule): StoreErrorPolicy | null {
    const { policyOnError = null } = this.options
    return policyOnError === null ? null : (onStoreError ?? policyOnError)
  }

  /** For a rule that is counted under its path. */
  private getStatsBase(rule: Rule): number {
    const { statsBases } = this
    const { id, path } = rule
    if (statsBases[id] < 0) statsBases[id] = this.options.stats.rule(path, path, this.getPolicy(rule))
    return statsBases[id]
  }

  /** Throws a ServiceError. */
  resolve(domainName: string, descriptor: Descriptor): ResolvedDescriptor {
    const { stats, nearLimitRatio } = this.options
    const { hitsAddend: hits, limit } = descriptor
    if (this.trie === null) throw new ServiceError('no rate limit configuration loaded')
    if (typeof hits === 'bigint' && hits > HITS_MAX) {
      throw new ServiceError(`hits_addend must not be above ${HITS_MAX}`)
    }
    const domain = this.trie.domain(domainName)
    if (domain < 0) {
      const missStat = stats.domainNotFound(domainName)
      return new ResolvedDescriptor({ rule: null, near: 0, statsBase: -1, missStat, hits, keyBase: '' })
    }
    if (limit !== null && unitSec(limit.unit) === 0) {
      throw new ServiceError(`rate limit override has an unknown unit: ${limit.unit}`)
    }
    const expirySec = limit === null ? 0 : this.windowSec(this.trie, domain, descriptor)
    const rule = this.findRule(this.trie, domain, domainName, descriptor)
    if (rule === null || rule.isUnlimited) {
      return new ResolvedDescriptor({ rule, near: 0, statsBase: -1, missStat: -1, hits, keyBase: '' })
    }
    return new ResolvedDescriptor({
      rule,
      near: nearLimit(rule.limit.requestsPerUnit, nearLimitRatio),
      statsBase: stats.rule(this.found.statsKey, rule.path, this.getPolicy(rule)),
      missStat: -1,
      hits,
      expirySec,
      keyBase: this.buildKey(domainName, descriptor, this.found.sharedValues),
      isPublic: domainName === PUBLIC_DOMAIN,
    })
  }

  /**
   * The window of the rule that an override replaces; 0 = none. Both share a counter when their windows begin together
   * (spec Q20), and a rule's hits do not renew its expiry, so the override must not make the expiry shorter.
   */
  private windowSec(trie: Trie, domain: number, { entries }: Descriptor): number {
    if (!trie.match(domain, entries, this.found) || this.found.rule!.isUnlimited) return 0
    return unitSec(this.found.rule!.limit.unit)
  }

  /** The rule for one descriptor, or null; `found` holds its stats key until the next call. */
  private findRule(trie: Trie, domain: number, domainName: string, descriptor: Descriptor): Rule | null {
    if (descriptor.limit === null) {
      return trie.match(domain, descriptor.entries, this.found) ? this.found.rule : null
    }
    this.found.sharedValues.length = 0
    this.found.statsKey = overrideStatsKey(domainName, descriptor)
    return {
      id: -1,
      path: this.found.statsKey,
      limit: {
        name: '',
        requestsPerUnit: descriptor.limit.requestsPerUnit,
        unit: descriptor.limit.unit as Unit,
      },
      isUnlimited: false,
      isShadow: false,
      isQuota: false,
      onStoreError: null,
      localShare: null,
      replaces: [],
      metadata: null,
    }
  }

  /** The counter's key without the window (spec 3.1). */
  private buildKey(domain: string, { entries }: Descriptor, sharedValues: readonly string[]): string {
    let key = `${this.options.keyPrefix}${domain}_`
    for (let i = 0; i < entries.length; i++) {
      key += `${entries[i].key}_${sharedValues[i] || entries[i].value}_`
    }
    return key
  }
}

/** Spec 2.2, step 2: a dot before each entry, but not while everything so far is empty. */
function overrideStatsKey(domain: string, { entries }: Descriptor): string {
  let path = ''
  for (const { key, value } of entries) {
    if (path !== '') path += '.'
    path += value === '' ? key : `${key}_${value}`
  }
  return `${domain}.${path}`
}
