import { describe, expect, test } from 'vitest'
import { compareModels, type FullProbe, modelKey, uniqueModels } from '../../../monitor/scoring/models.ts'

const NOW_SEC = 1_795_194_360
const HOUR_SEC = 3_600

// biome-ignore format: the columns are the specification
const keys = [
  ['gpt-5.4',                'gpt-5.4'],
  ['  GPT-5.4 ',             'gpt-5.4'],
  ['models/gpt-5.4',         'gpt-5.4'],
  ['openai/gpt-5.4',         'gpt-5.4'],
  ['models/OpenAI/GPT-5.4',  'gpt-5.4'],
  ['a/b/c',                  'b/c'],     // one leading vendor
  ['models/models/x',        'x'],       // the second is a vendor's name
  ['vendor/',                'vendor/'], // nothing would be left
  ['/x',                     'x'],
  ['',                       ''],
] as const
for (const [id, key] of keys) {
  test(`M7.1#3: the key of ${JSON.stringify(id)} is ${JSON.stringify(key)}`, () =>
    expect(modelKey(id)).toBe(key))
}

test('M7.1#3: lists keep a spelling, once per key, sorted by code unit, without blanks', () => {
  expect(uniqueModels(['b', 'openai/a', 'A', ' a ', 'models/B', '', '  ', 'Z'])).toEqual(['A', 'Z', 'b'])
  expect(uniqueModels(['é', 'z', 'Z'])).toEqual(['Z', 'é'].sort()) // z and Z are one
})

const full = (probe: Partial<FullProbe>): FullProbe => ({
  atSec: NOW_SEC,
  models: ['a', 'b'],
  listing: 'open',
  claimed: [],
  ...probe,
})

describe('7.1: claimed and verified', () => {
  test('M7.1#1-2: claimed is the union of catalogue and pricing, verified what is listed', () => {
    const models = compareModels(['a', 'c'], full({ claimed: ['openai/C', 'b'] }), NOW_SEC)
    expect(models).toEqual({ claimed: ['a', 'b', 'c'], verified: ['a', 'b'], truthRatio: 2 / 3 })
  })

  test('M7.1#4: listed but not claimed costs nothing', () => {
    expect(compareModels(['a'], full({ models: ['a', 'x', 'y', 'z'] }), NOW_SEC).truthRatio).toBe(1)
  })

  test('spelling does not matter', () => {
    expect(compareModels(['OpenAI/GPT-5.4'], full({ models: ['models/gpt-5.4'] }), NOW_SEC).truthRatio).toBe(
      1,
    )
  })

  // biome-ignore format: the columns are the specification
  const ages = [
    // hours old -> claimed, verified, ratio
    [ 72, ['a', 'p'], ['a'], 1 / 2],
    [ 73, ['a', 'p'], [],    0],     // the listing is too old to verify
    [168, ['a', 'p'], [],    0],
    [169, ['a'],      [],    0],     // and now the claims are too
  ] as const
  for (const [hours, claimed, verified, truthRatio] of ages) {
    test(`M7.1#2: a full probe of ${hours} h ago`, () => {
      const probe = full({ atSec: NOW_SEC - hours * HOUR_SEC, models: ['a'], claimed: ['p'] })
      expect(compareModels(['a'], probe, NOW_SEC)).toEqual({ claimed, verified, truthRatio })
    })
  }

  // biome-ignore format: the columns are the specification
  const unknown = [
    ['nothing claimed',          [],    full({})],
    ['a key we lack',            ['a'], full({ listing: 'key_required', models: null })],
    ['never seen whole',         ['a'], null],
  ] as const
  for (const [name, claims, probe] of unknown) {
    test(`M7.1#4: ${name}: no ratio`, () =>
      expect(compareModels(claims, probe, NOW_SEC).truthRatio).toBeNull())
  }

  test('a listing that needed the configured key counts', () => {
    expect(
      compareModels(['a', 'b'], full({ listing: 'key_required', models: ['a'] }), NOW_SEC).truthRatio,
    ).toBe(1 / 2)
  })

  test('no listing at all verifies nothing', () => {
    expect(compareModels(['a'], full({ listing: 'absent', models: null }), NOW_SEC)).toMatchObject({
      truthRatio: 0,
    })
  })
})
