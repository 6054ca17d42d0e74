/** All numbers of the published document have bounds (spec 10): those in headers and parameters as those in bodies. */
import { expect, test } from 'vitest'
import { openApi } from '../../../monitor/api/schema/openapi.ts'

const { components, paths } = openApi({ version: '1', isClosed: false }) as Record<string, object>

/** Every schema that is a number, with where it is; examples are values, and are not looked into. */
function* numbers(value: unknown, at: string): Generator<[at: string, schema: Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return
  const { type, enum: values, const: only } = value as Record<string, unknown>
  const isNumber = [type].flat().some((each) => each === 'integer' || each === 'number')
  if (isNumber && values === undefined && only === undefined) yield [at, value as Record<string, unknown>]
  for (const [name, each] of Object.entries(value))
    if (!/^examples?$/.test(name)) yield* numbers(each, `${at}.${name}`)
}

const all = [...numbers(components, 'components'), ...numbers(paths, 'paths')]

test('10: all numbers have bounds, in headers, parameters and bodies', () => {
  for (const [at, schema] of all)
    expect([at, schema]).toEqual([
      at,
      expect.objectContaining({ minimum: expect.any(Number), maximum: expect.any(Number) }),
    ])
})

test('10: the numeric headers are among them', () => {
  const headers = all.flatMap(([at]) => /^components\.headers\.([\w-]+)\.schema$/.exec(at)?.[1] ?? [])
  expect(headers).toEqual(['X-RateLimit-Limit', 'X-RateLimit-Remaining', 'X-RateLimit-Reset', 'Retry-After'])
})
