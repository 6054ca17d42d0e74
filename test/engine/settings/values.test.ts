import { availableParallelism } from 'node:os'
import fc from 'fast-check'
import { describe, expect, test } from 'vitest'
import {
  bool,
  duration,
  exactWord,
  float,
  int,
  intOrCores,
  type Kind,
  list,
  map,
  matching,
  oneOfAnyCase,
  oneOfOrLast,
} from '../../../engine/settings/values.ts'

const anyInt = int(-1_000_000, 1_000_000)
const word = exactWord('redis', 'memory')
const wordAnyCase = oneOfAnyCase('single', 'cluster')
const noSpace = matching(/^\S*$/, 'a text without white space')
const wordOrText = oneOfOrLast('json', 'text')

// biome-ignore format: the columns are the specification
const read: [Kind<unknown>, string, unknown][] = [
  [anyInt, '10', 10], [anyInt, '-10', -10], [anyInt, '+10', 10], [anyInt, '0', 0], [anyInt, '-0', 0],
  [anyInt, '0x10', 16], [anyInt, '0Xff', 255], [anyInt, '-0x10', -16], [anyInt, '0x_f', 15],
  [anyInt, '0o17', 15], [anyInt, '0O17', 15], [anyInt, '010', 8], [anyInt, '0_7', 7], [anyInt, '00', 0],
  [anyInt, '0b101', 5], [anyInt, '1_000', 1000], [anyInt, '1_0_0', 100],
  [float(), '0.8', 0.8], [float(), '1', 1], [float(), '.5', 0.5], [float(), '5.', 5],
  [float(), '-1e-3', -0.001], [float(), '1_000.5', 1000.5], [float(0, 1), '1', 1],
  [bool, '1', true], [bool, 't', true], [bool, 'T', true], [bool, 'TRUE', true], [bool, 'true', true],
  [bool, 'True', true], [bool, '0', false], [bool, 'f', false], [bool, 'F', false], [bool, 'FALSE', false],
  [bool, 'false', false], [bool, 'False', false],
  [duration(), '0', 0], [duration(), '+0', 0], [duration(), '10s', 10_000], [duration(), '1h30m', 5_400_000],
  [duration(), '150us', 0.15], [duration(), '150µs', 0.15], [duration(), '150μs', 0.15],
  [duration(), '1ns', 1e-6], [duration(), '1.5h', 5_400_000], [duration(), '.5s', 500], [duration(), '1.s', 1000],
  [duration(), '0.29s', 290],
  [duration(), '1s1s', 2000], [duration(), '24h', 86_400_000],
  [list, '', []], [list, '  ', []], [list, 'a', ['a']], [list, 'a, b', ['a', ' b']], [list, 'a,', ['a', '']],
  [map, '', {}], [map, ' ', {}], [map, 'a:1', { a: '1' }], [map, 'a:1, b:', { a: '1', ' b': '' }],
  [map, 'a:1,a:2', { a: '2' }],
  [word, 'redis', 'redis'], [wordAnyCase, 'SINGLE', 'single'], [wordAnyCase, 'Cluster', 'cluster'],
  [noSpace, '', ''], [noSpace, 'a:b', 'a:b'],
  [wordOrText, 'JSON', 'json'], [wordOrText, 'xml', 'text'],
]

// biome-ignore format: the columns are the specification
const refused: [Kind<unknown>, string[]][] = [
  [anyInt, ['', ' 1', '1 ', 'x', '1.0', '1e3', '08', '0x', '0b2', '_1', '1_', '1__0', '--1', '1000001', '٣']],
  [float(0, 1), ['', 'x', '1.1', '-0.1', 'NaN', 'Inf', '1e999', '.', 'e1', '0x1p-2', '1_', '_1', ' 1']],
  [bool, ['', 'yes', 'no', 'on', 'tRUE', ' true', '2']],
  [duration(), ['', '10', '1', '-1s', 's', '.s', '1d', '1S', '10 s', '1h 30m', '300000000000s', '1_0s']],
  [duration(1), ['0', '0.5ms', '999us']],
  [map, ['a', 'a:b:c', 'a:1,', 'a:1,b']],
  [word, ['Redis', 'redis ', 'memcached', '']],
  [wordAnyCase, ['', 'sentinell']],
  [noSpace, [' ', 'a b', 'a\n']],
]

for (const [kind, text, value] of read) {
  test(`${kind.name} ${JSON.stringify(text)} is ${JSON.stringify(value)}`, () => {
    expect(kind.parse(text)).toEqual(value)
  })
}

for (const [kind, texts] of refused) {
  test.each(texts)(`${kind.name}, ${kind.allowed}: %j is refused`, (text) => {
    expect(() => kind.parse(text)).toThrow(kind.allowed)
  })
}

test('an error about a map names the invalid item', () => {
  expect(() => map.parse('a:1,b')).toThrow('invalid map item: "b"; items key:value separated by commas')
})

test('a map key cannot reach the prototype of objects', () => {
  const value = map.parse('__proto__:x')
  expect(Object.keys(value)).toEqual(['__proto__'])
  expect(Object.getPrototypeOf(value)).toBe(Object.prototype)
})

test('the value cores is the number of CPU cores, up to the maximum', () => {
  expect(intOrCores(1, 256).parse('cores')).toBe(Math.min(availableParallelism(), 256))
  expect(intOrCores(1, 1).parse('cores')).toBe(1)
  expect(intOrCores(1, 256).parse('3')).toBe(3)
})

describe('properties', () => {
  const whole = int(Number.MIN_SAFE_INTEGER, Number.MAX_SAFE_INTEGER)

  test('every integer is read back from each of its bases', () => {
    fc.assert(
      fc.property(fc.maxSafeNat(), fc.boolean(), (size, isNegative) => {
        const value = isNegative && size > 0 ? -size : size
        const sign = value < 0 ? '-' : ''
        for (const [prefix, radix] of [
          ['', 10],
          ['0x', 16],
          ['0X', 16],
          ['0o', 8],
          ['0', 8],
          ['0b', 2],
        ] as const) {
          expect(whole.parse(sign + prefix + size.toString(radix))).toBe(value)
        }
      }),
    )
  })

  test('underscores between digits change nothing', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 1e9 }), (value) => {
        expect(whole.parse([...String(value)].join('_'))).toBe(value)
      }),
    )
  })

  test('a duration is the sum of its parts', () => {
    const part = (max: number) => fc.integer({ min: 0, max })
    fc.assert(
      fc.property(part(999), part(59), part(59), part(999), part(999), part(999), (h, m, s, ms, us, ns) => {
        const nanoseconds = ((h * 60 + m) * 60 + s) * 1e9 + ms * 1e6 + us * 1e3 + ns // below 2^53
        expect(duration().parse(`${h}h${m}m${s}s${ms}ms${us}us${ns}ns`)).toBe(nanoseconds / 1e6)
      }),
    )
  })

  test('a fraction of a unit is exact to the nanosecond', () => {
    fc.assert(
      fc.property(fc.integer({ min: 0, max: 999_999_999 }), (ns) => {
        expect(duration().parse(`0.${String(ns).padStart(9, '0')}s`)).toBe(ns / 1e6)
      }),
    )
  })

  test('any text is read, or refused with the reason', () => {
    const kinds = [anyInt, float(), bool, duration(), map, word, wordAnyCase]
    fc.assert(
      fc.property(
        fc.string({ unit: fc.constantFrom(...'0123456789_.xbo-+eE:,hmsuµn '), maxLength: 500 }),
        (text) => {
          for (const kind of kinds) {
            try {
              kind.parse(text)
            } catch (error) {
              expect((error as Error).message).toContain(kind.allowed)
            }
          }
        },
      ),
      { numRuns: 500 },
    )
  })
})
