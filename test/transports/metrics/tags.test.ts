import { expect, test } from 'vitest'
import { cleanTags, reservedTagsIn, splitTags, withTags } from '../../../transports/metrics/tags.ts'

test('7.2: tags are sorted by key and put behind the name', () => {
  const tags = cleanTags({ b: 'x.y', a: '1' })
  expect(withTags('runtime.num_values', tags)).toBe('runtime.num_values.__a=1.__b=x_y')
})

test('7.2: the example with COMMIT', () => {
  const name = 'ratelimit.service.rate_limit.mongo_cps.database_users.total_hits'
  expect(withTags(name, cleanTags({ COMMIT: '12345' }))).toBe(`${name}.__COMMIT=12345`)
})

test('7.2: separators become _, pairs with an empty half are dropped', () => {
  expect(cleanTags({ a: 'x.y:z|w', '': 'v', k: '' })).toEqual([['a', 'x_y_z_w']])
})

test('7.2: no tag ends a line or begins another; a key keeps its dots', () => {
  expect(cleanTags({ 'app.io/k': 'v', 'a|b\n': 'x\ny:5|c\r' })).toEqual([
    ['a_b_', 'x_y_5_c_'],
    ['app.io/k', 'v'],
  ])
})

test('7.2: tags a name has take their place among the others, and win', () => {
  const tags = cleanTags({ zone: 'b', app: 'c', code: 'extra' })
  const name = withTags('ratelimit.memcache.add.__code=error', tags)
  expect(name).toBe('ratelimit.memcache.add.__app=c.__code=error.__zone=b')
  expect(withTags('x', [])).toBe('x')
})

test('7.5: a name is cut at the first .__, and pieces without = are dropped', () => {
  expect(splitTags('a.b.__k=v=w.__nothing.__z=')).toEqual({
    base: 'a.b',
    tags: [
      ['k', 'v=w'],
      ['z', ''],
    ],
  })
  expect(splitTags('a.b')).toEqual({ base: 'a.b', tags: [] })
})

test('7.1: reserved tag names are counted', () => {
  expect(reservedTagsIn(cleanTags({ host: 'a', shard: '1', COMMIT: '5' }))).toBe(2)
})
