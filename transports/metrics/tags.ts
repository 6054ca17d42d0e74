/**
 * Tags live in the name (spec 7.2), sorted by key, and come apart again for sinks that know tags of their own.
 *
 *     name            ratelimit.memcache.add.__code=success       EXTRA_TAGS   zone:b.c
 *     withTags()      ratelimit.memcache.add.__code=success.__zone=b_c
 *     splitTags()     ratelimit.memcache.add       code=success
 */
export type Tags = readonly (readonly [key: string, value: string])[]

/** Keys that the statistics library of the reference keeps for itself; using one bumps the counter `reserved_tag`. */
const RESERVED = new Set(
  'asg az backend canary host period region shard window source project facet envoyservice'.split(' '),
)

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const BROKEN = /[:|\u0000-\u001f\u007f]/g // a line, wherever they stand in it

/** EXTRA_TAGS as they are used: no empty key or value, and nothing that ends a name or a line. */
export function cleanTags(tags: Readonly<Record<string, string>>): Tags {
  return Object.entries(tags)
    .filter(([key, value]) => key !== '' && value !== '')
    .map(
      ([key, value]) =>
        [key.replaceAll(BROKEN, '_'), value.replaceAll(/\./g, '_').replaceAll(BROKEN, '_')] as const,
    )
    .sort(byKey)
}

export function reservedTagsIn(tags: Tags): number {
  return tags.filter(([key]) => RESERVED.has(key)).length
}

/** A name with tags beside those it has; its own win. */
export function withTags(name: string, tags: Tags): string {
  if (tags.length === 0) return name
  const { base, tags: own } = splitTags(name)
  const all = [...own, ...tags.filter(([key]) => !own.some(([ownKey]) => ownKey === key))].sort(byKey)
  return base + all.map(([key, value]) => `.__${key}=${value}`).join('')
}

/** Cut at the first `.__`; what is no `key=value` there is dropped (spec 7.5). */
export function splitTags(name: string): { base: string; tags: Tags } {
  const end = name.indexOf('.__')
  if (end < 0) return { base: name, tags: [] }
  const pairs = name
    .slice(end + 3)
    .split('.__')
    .filter((piece) => piece.includes('='))
  return { base: name.slice(0, end), tags: pairs.map((piece) => cutAt(piece, piece.indexOf('='))) }
}

function cutAt(piece: string, index: number): [string, string] {
  return [piece.slice(0, index), piece.slice(index + 1)]
}

function byKey([a]: Tags[number], [b]: Tags[number]): number {
  return a < b ? -1 : a > b ? 1 : 0
}
