/**
 * Tags are part of a name (spec 7.2), sorted by key, and are split off again for sinks with their own tags.
 *
 *     name            ratelimit.memcache.add.__code=success       EXTRA_TAGS   zone:b.c
 *     withTags()      ratelimit.memcache.add.__code=success.__zone=b_c
 *     splitTags()     ratelimit.memcache.add       code=success
 */
export type Tags = readonly (readonly [key: string, value: string])[]

/** Keys reserved by the statistics library of envoyproxy/ratelimit; their use increments the counter `reserved_tag`. */
const RESERVED = new Set(
  'asg az backend canary host period region shard window source project facet envoyservice'.split(' '),
)

// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const BROKEN = /[:|\u0000-\u001f\u007f]/g // a line, wherever they stand in it

/** EXTRA_TAGS without empty keys or values and without characters that end a name or a line. */
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

/** Adds tags to a name; tags it already has take precedence. */
export function withTags(name: string, tags: Tags): string {
  if (tags.length === 0) return name
  const { base, tags: own } = splitTags(name)
  const all = [...own, ...tags.filter(([key]) => !own.some(([ownKey]) => ownKey === key))].sort(byKey)
  return base + all.map(([key, value]) => `.__${key}=${value}`).join('')
}

/** Splits at the first `.__`; parts that are not `key=value` are dropped (spec 7.5). */
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
