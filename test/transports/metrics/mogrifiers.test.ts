import { expect, test } from 'vitest'
import { loadMogrifiers } from '../../../transports/metrics/mogrifiers.ts'

const RULE = 'ratelimit.service.rate_limit.shop.user.total_hits'

const RULE_ENV = {
  DOG_STATSD_MOGRIFIER_RULE_PATTERN: '^ratelimit\\.service\\.rate_limit\\.(.*)\\.(.*)\\.(.*)$',
  DOG_STATSD_MOGRIFIER_RULE_NAME: 'ratelimit.$3',
  DOG_STATSD_MOGRIFIER_RULE_TAGS: 'domain:$1,rule:x-$2',
}

test('7.5 12#32: name and tags have the groups of the pattern', () => {
  expect(loadMogrifiers(['RULE'], RULE_ENV)(RULE)).toEqual({
    name: 'ratelimit.total_hits',
    tags: [
      ['domain', 'shop'],
      ['rule', 'x-user'],
    ],
  })
})

test('7.5: a name without a matching pattern is unchanged', () => {
  expect(loadMogrifiers(['RULE'], RULE_ENV)('runtime.num_values')).toEqual({
    name: 'runtime.num_values',
    tags: [],
  })
  expect(loadMogrifiers([], {})(RULE)).toEqual({ name: RULE, tags: [] })
})

test('7.5: the first one in the list that matches is applied, the others are skipped', () => {
  const env = {
    DOG_STATSD_MOGRIFIER_A_PATTERN: 'total',
    DOG_STATSD_MOGRIFIER_A_NAME: 'a',
    DOG_STATSD_MOGRIFIER_B_PATTERN: 'hits',
    DOG_STATSD_MOGRIFIER_B_NAME: 'b',
  }
  expect(loadMogrifiers(['A', 'B'], env)(RULE).name).toBe('a')
  expect(loadMogrifiers(['B', 'A'], env)(RULE).name).toBe('b')
})

// biome-ignore format: the columns are the specification
const fills = [
  // pattern, NAME -> name of "shop.user"
  ['(\\w+)\\.(\\w+)', '$2.$1',    'user.shop'],
  ['user',            'x.$0',     'x.user'], // the whole match, not the whole name
  ['(u)ser',          '$1.$2.$9', 'u.$2.$9'], // no such group: stays
  ['(z)?user',        'x$1y',     'xy'], // took no part: empty
  ['(u)ser',          '$',        '$'],
] as const

for (const [pattern, template, name] of fills) {
  test(`7.5: ${pattern} with NAME=${template} makes ${name}`, () => {
    const env = { DOG_STATSD_MOGRIFIER_M_PATTERN: pattern, DOG_STATSD_MOGRIFIER_M_NAME: template }
    expect(loadMogrifiers(['M'], env)('shop.user').name).toBe(name)
  })
}

test('7.5: variables are in upper case, and the list is not trimmed', () => {
  const env = { DOG_STATSD_MOGRIFIER_FOO_PATTERN: 'a', DOG_STATSD_MOGRIFIER_FOO_NAME: 'b' }
  expect(loadMogrifiers(['foo'], env)('a').name).toBe('b')
  expect(() => loadMogrifiers([' foo'], env)).toThrow('no PATTERN specified for mogrifier  foo')
})

test('7.5 10#36-38: the older variables are read, the current ones win', () => {
  const env = {
    TAGGED_STATS_MOGRIFIER_M_PATTERN: '(a)',
    TAGGED_STATS_MOGRIFIER_M_NAME: 'older',
    TAGGED_STATS_MOGRIFIER_M_TAGS: 'k:$1',
  }
  expect(loadMogrifiers(['M'], env)('a')).toEqual({ name: 'older', tags: [['k', 'a']] })
  expect(loadMogrifiers(['M'], { ...env, DOG_STATSD_MOGRIFIER_M_NAME: 'real' })('a').name).toBe('real')
})

test('7.5 12#21: bare PATTERN, NAME and TAGS are not read', () => {
  const env = { PATTERN: 'a', NAME: 'b', TAGS: 'c:d' }
  expect(() => loadMogrifiers(['M'], env)).toThrow('no PATTERN specified for mogrifier M')
})

// biome-ignore format: the columns are the specification
const mistakes = [
  // PATTERN, NAME, TAGS -> error
  ['',   'n', '',          'no PATTERN specified for mogrifier foo'],
  ['(',  'n', '',          'failed to compile pattern for foo: (: error parsing regexp: missing closing ): `(`'],
  ['a',  '',  '',          'no NAME specified for mogrifier foo'],
  ['a',  'n', ':v',        'no key specified for tag  for mogrifier foo'],
  ['a',  'n', 'x:1,k:',    'no value specified for tag k for mogrifier foo'],
  ['',   'n', 'x:1,k',     'failed to load mogrifier foo: envconfig.Process: assigning DOG_STATSD_MOGRIFIER_FOO_TAGS to Tags: ' +
                           'converting \'x:1,k\' to type map[string]string. details: invalid map item: "k"'],
] as const

for (const [pattern, name, tags, error] of mistakes) {
  test(`7.5: PATTERN=${pattern} NAME=${name} TAGS=${tags} stops the start: ${error}`, () => {
    const env = {
      DOG_STATSD_MOGRIFIER_FOO_PATTERN: pattern,
      DOG_STATSD_MOGRIFIER_FOO_NAME: name,
      DOG_STATSD_MOGRIFIER_FOO_TAGS: tags,
    }
    expect(() => loadMogrifiers(['foo'], env)).toThrow(`${error} [MOGRIFIER_INVALID]`)
  })
}
