/** `GET /codes` has every code that the program can return: compared with the places that define and use them. */
import { readdirSync, readFileSync } from 'node:fs'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { CODE_KINDS, CODES, type CodeKind } from '../../../monitor/api/codes.ts'
import { ERROR_STATUS } from '../../../monitor/api/errors.ts'
import type { Schema } from '../../../monitor/api/schema/json-schema.ts'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { components } from '../../../monitor/api/schema/resources.ts'
import { ERROR_CODES } from '../../../monitor/facts.ts'
import { CAPS } from '../../../monitor/scoring/tier.ts'
import { startApi } from './setup.ts'

const MONITOR = new URL('../../../monitor/', import.meta.url)
const readSource = (path: string) => readFileSync(new URL(path, MONITOR), 'utf8')
const sources = readdirSync(MONITOR, { recursive: true })
  .map(String)
  .filter((path) => path.endsWith('.ts'))

/** The members of a union of literals: `export type Notice =\n  | 'slow'`. */
function readUnion(path: string, name: string): string[] {
  const [, union] = new RegExp(`export type ${name} =([^;]+?)\\n(?=\\n|export|const)`).exec(readSource(path))!
  return [...union.matchAll(/'(\w+)'/g)].map(([, code]) => code)
}

const findCodes = (kind: CodeKind) => CODES.filter((each) => each.kind === kind).map(({ code }) => code)

// biome-ignore format: a table
const DEFINED: Record<CodeKind, readonly string[]> = {
  error:           Object.keys(ERROR_STATUS),
  detection_error: readUnion('detections/detection.ts', 'FailureCode'),
  probe_error:     ERROR_CODES,
  cap:             Object.keys(CAPS),
  red_reason:      readUnion('scoring/boards.ts', 'RedReason'),
  black_reason:    readUnion('scoring/boards.ts', 'BlackReason'),
  notice:          readUnion('probe/detect.ts', 'Notice'),
  blocking:        [.../blocking: (.+) *$/m.exec(readSource('facts.ts'))![1].matchAll(/'(\w+)'/g)].map(([, code]) => code),
  verdict:         readUnion('probe/detect.ts', 'Verdict'),
  component:       readUnion('scoring/score.ts', 'ComponentKey'),
  quota_class:     ['read', 'submit', 'page', 'key_read', 'key_submit', 'wrong_key'],
}

describe('codes', () => {
  test.each(CODE_KINDS.map((kind) => [kind]))('%s: all that are defined, and no others', (kind) => {
    expect(DEFINED[kind].length).toBeGreaterThan(3)
    expect([...findCodes(kind)].sort()).toEqual([...DEFINED[kind]].sort())
  })

  test('every code that the sources throw or return is there', () => {
    const used = new Set<string>()
    for (const path of sources) {
      const text = readSource(path)
      for (const [, code] of text.matchAll(/new ApiError\(\s*'(\w+)'/g)) used.add(`error ${code}`)
      for (const [, code] of text.matchAll(/failure: '(\w+)'/g)) used.add(`detection_error ${code}`)
    }
    expect(used.size).toBeGreaterThan(20)
    const known = CODES.map(({ kind, code }) => `${kind} ${code}`)
    expect([...used].filter((each) => !known.includes(each))).toEqual([])
  })

  test('each is unique within its kind, with a sentence of meaning and one of what to do', () => {
    const names = CODES.map(({ kind, code }) => `${kind} ${code}`)
    expect(new Set(names).size).toBe(names.length)
    for (const { code, meaning, action } of CODES) {
      for (const words of [meaning, action])
        expect([code, words]).toEqual([code, expect.stringMatching(/^\S+ .+\.$/)])
    }
  })

  test('the enumerations of the document are the same codes, and stay open', () => {
    const { schemas } = (
      openApi({ version: '1', isClosed: false }) as { components: { schemas: Record<string, Schema> } }
    ).components
    // biome-ignore format: a table
    const enumerations: [string, CodeKind[]][] = [
      ['ErrorCode', ['error']], ['DetectionErrorCode', ['detection_error']], ['ProbeErrorCode', ['probe_error']], ['CapCode', ['cap']],
      ['BoardReason', ['red_reason', 'black_reason']], ['Notice', ['notice']], ['ScoreComponentKey', ['component']],
      ['QuotaClass', ['quota_class']],
    ]
    for (const [name, kinds] of enumerations) {
      const codes = kinds.flatMap((kind) => findCodes(kind))
      expect([name, components(true)[name].enum]).toEqual([name, codes])
      expect([name, schemas[name].anyOf]).toEqual([
        name,
        [expect.objectContaining({ enum: codes }), expect.objectContaining({ pattern: expect.any(String) })],
      ])
    }
    expect(schemas.Verdict.enum).toEqual(findCodes('verdict'))
    expect(schemas.Blocking.enum).toEqual(findCodes('blocking'))
  })
})

describe('GET /codes', () => {
  let api: Awaited<ReturnType<typeof startApi>>
  beforeAll(async () => {
    api = await startApi()
  })
  afterAll(() => api.close())

  test('M1.2#1-22: lists all codes; errors have their status, others have none', async () => {
    const { json, headers } = await api.get('/api/v1/codes')
    const { codes } = json as { codes: typeof CODES }
    expect(codes).toEqual(CODES)
    for (const { kind, code, http_status } of codes)
      expect([code, http_status]).toEqual([
        code,
        kind === 'error' ? ERROR_STATUS[code as keyof typeof ERROR_STATUS] : null,
      ])
    expect(headers.etag).toMatch(/^W\//)
  })

  test('is there before the data is loaded, is in the index, and takes no parameters', async () => {
    api.state.snapshot = null
    expect((await api.get('/api/v1/codes')).status).toBe(200)
    const { endpoints } = (await api.get('/api/v1')).json as { endpoints: { path: string }[] }
    expect(endpoints.map(({ path }) => path)).toContain('/api/v1/codes')
    expect((await api.get('/api/v1/codes?kind=cap')).status).toBe(400)
  })
})
