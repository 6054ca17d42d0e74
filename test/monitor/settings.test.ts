/** The table of the monitor's settings, parsed together with that of the rate limiter (spec 12). */
import { describe, expect, test } from 'vitest'
import { parseSettings } from '../../engine/settings/parse.ts'
import { rows } from '../../engine/settings/table.ts'
import { nearest } from '../../engine/settings/typos.ts'
import { monitorRows } from '../../monitor/settings.ts'
import { specRows } from '../helpers/spec.ts'

const parse = (env: Record<string, string>) => parseSettings(env, monitorRows)

describe('the table', () => {
  test.each(specRows('M12'))('$id: is what the specification says', ({ cells }) => {
    const names = cells[0].split(', ')
    const defaults = cells[1].replaceAll(/ \(.*?\)/g, '').split(', ')
    expect(defaults.length).toBe(names.length)
    for (const [i, name] of names.entries()) {
      const preset = [...rows, ...monitorRows].find((row) => row.name === name)!.default
      const count = /^built-in list of (\d)$/.exec(defaults[i])?.[1]
      if (count) expect(preset.split(',').length).toBe(Number(count))
      else expect(preset).toBe(['empty', 'off'].includes(defaults[i]) ? '' : defaults[i])
    }
  })

  test('has no variable of the rate limiter', () => {
    const limiter = new Set(rows.flatMap(({ name, older }) => [name as string, older]))
    expect(monitorRows.filter(({ name }) => limiter.has(name))).toEqual([])
    expect(new Set(monitorRows.map(({ name }) => name)).size).toBe(monitorRows.length)
  })

  test('has no name that is taken for another setting', () => {
    const known = [...rows, ...monitorRows].flatMap(({ name, older }) =>
      older === null ? [name] : [name, older],
    )
    for (const name of known) expect(nearest(name, known) ?? name).toBe(name)
  })
})

describe('parsed', () => {
  test('each setting has its default and its type', () => {
    const { settings, warnings } = parse({})
    expect(Object.keys(settings)).toEqual([...rows, ...monitorRows].map(({ name }) => name))
    expect(settings.MONITOR_ENABLED satisfies boolean).toBe(false)
    expect(settings.PROBE_INTERVAL_S satisfies number).toBe(300)
    expect(settings.TRUSTED_PROXIES satisfies readonly string[]).toEqual([])
    expect(settings.VANTAGE_REGION satisfies 'overseas' | 'cn').toBe('overseas')
    expect(settings.GRPC_PORT satisfies number).toBe(8081)
    expect(structuredClone(settings)).toEqual(settings)
    expect(warnings).toEqual([])
  })

  test('a mistake in either table is an error, and both are reported', () => {
    expect(() => parse({ PROBE_INTERVAL_S: '59', GRPC_PORT: 'x' })).toThrow(
      'GRPC_PORT="x" is not allowed: an integer from 0 to 65535.\n' +
        'PROBE_INTERVAL_S="59" is not allowed: an integer from 60 to 3600.',
    )
  })

  test('a misspelt name of either table is a warning', () => {
    expect(parse({ CATALOG_PATH: 'x', REDIS_ULR: 'a:1' }).warnings).toEqual([
      'CATALOG_PATH is not a setting; did you mean CATALOGUE_PATH?',
      'REDIS_ULR is not a setting; did you mean REDIS_URL?',
    ])
  })

  test('without its rows, its variables are unknown and ignored', () => {
    const { settings, warnings } = parseSettings({ PROBE_INTERVAL_S: 'x' })
    expect(Object.keys(settings)).toEqual(rows.map(({ name }) => name))
    expect(warnings).toEqual([])
  })
})

const NOT_YET = 'SCREENSHOTS_ENABLED' // for these tests

describe('what is not implemented yet', () => {
  test('is a warning when it is requested', () => {
    const later = monitorRows.map((row) => (row.name === NOT_YET ? { ...row, state: 'later' as const } : row))
    const warnings = (value: string) => parseSettings({ [NOT_YET]: value }, later).warnings
    expect(warnings('true')).toEqual([`${NOT_YET} has no effect yet in this version.`])
    for (const value of ['auto', '']) expect(warnings(value)).toEqual([])
  })

  test('stops the start where going on would not be safe', () => {
    expect(() => parse({ DETECTION_ALLOW_KEYS: 'true' })).toThrow(
      'DETECTION_ALLOW_KEYS is set, but this version does not support it, ' +
        'and starting without it would not be safe. Unset it. [SETTING_INVALID]',
    )
    expect(parse({ DETECTION_ALLOW_KEYS: 'false' }).warnings).toEqual([])
  })
})
