/**
 * What v1 writes, byte by byte (spec 9): golden/*.json hold one answer of every resource, indented to be read. A file
 * that is there may not change while v1 is served, except by growth that the specification allows (1, "Growth").
 *
 *     new resource: write its case below, then GOLDEN=write vitest run test/monitor/api/golden.test.ts
 *                   makes what is missing, and the examples of the OpenAPI document from all of them
 *     changed on purpose: delete the file first
 */
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { ERROR_STATUS } from '../../../monitor/api/errors.ts'
import { ENDPOINTS } from '../../../monitor/api/schema/endpoints.ts'
import { DOCUMENT, ORACLE } from './conforms.ts'
import { NOON } from './fake-store.ts'
import { collectErrors, DETECTIONS } from './golden-cases.ts'
import { startApi } from './setup.ts'

const FOLDER = new URL('./golden/', import.meta.url)
const EXAMPLES = new URL('../../../monitor/api/schema/examples.json', import.meta.url)
const isWriting = process.env.GOLDEN === 'write'

// biome-ignore format: the columns are file, path, and what its body is an example of
const CASES: [file: string, path: string, operation: string | null, status?: number][] = [
  ['index',               '',                                 'getIndex'],
  ['sites',               '/sites?limit=2',                   'listSites'],
  ['sites-summary',       '/sites?include=summary&limit=1',   null],
  ['site',                '/sites/alpha?history=full',        null],
  ['site-days',           '/sites/alpha',                     'getSite'],
  ['site-none',           '/sites/alpha?history=none',        null],
  ['site-unknown',        '/sites/down?history=day',          null],
  ['site-raw',            '/sites/best?history=raw',          null],
  ['site-score',          '/sites/alpha/score',               'getSiteScore'],
  ['site-history',        '/sites/alpha/history?days=2',      'getSiteHistory'],
  ['site-models',         '/sites/alpha/models',              'getSiteModels'],
  ['site-incidents',      '/sites/alpha/incidents',           'getSiteIncidents'],
  ['models',              '/models',                          'listModels'],
  ['leaderboard',         '/leaderboard',                     'getLeaderboard'],
  ['leaderboard-black',   '/leaderboard?board=black',         null],
  ['detection-queued',    `/detections/${DETECTIONS[0].id}`,  'submitDetection', 202],
  ['detection-done',      `/detections/${DETECTIONS[1].id}`,  'getDetection'],
  ['detection-failed',    `/detections/${DETECTIONS[2].id}`,  null],
  ['limits',              '/limits',                          'getLimits'],
  ['meta',                '/meta',                            'getMeta'],
  ['changelog',           '/changelog',                       'getChangelog'],
]

let api: Awaited<ReturnType<typeof startApi>>
beforeEach(async () => {
  api = await startApi({ changelog: CHANGELOG })
  api.store.bucketsMax = 2
  for (const row of DETECTIONS) api.store.detections.set(row.id, row)
  api.queue.restore([DETECTIONS[0]])
})
afterEach(() => api.close())

const CHANGELOG = [
  {
    ...{ id: 'v1', announced_on: '2025-11-01', effective_on: '2025-11-15', kind: 'added' as const },
    ...{ endpoints: ['/api/v1'], text: 'First version of the API.' },
  },
]

describe('M9#1: what v1 writes', () => {
  for (const [file, path] of CASES) {
    test(file, async () => {
      const { status, bytes } = await api.get(`/api/v1${path}`)
      expect(status).toBe(200)
      expectGolden(file, bytes.toString())
    })
  }

  test('one error of each code', async () => {
    const errors = await collectErrors(startApi)
    expect(Object.keys(errors).sort()).toEqual(Object.keys(ERROR_STATUS).sort())
    expectGolden('errors', JSON.stringify(errors))
  })

  test('there is no resource without its file', () => {
    const expectGolden = CASES.map(([, , operation]) => operation)
    const missing = ENDPOINTS.filter(({ id }) => !expectGolden.includes(id)).map(({ id }) => id)
    expect(missing).toEqual(['getCodes', 'getOpenApi']) // they grow; codes.test.ts and document.test.ts hold what must stay
  })
})

describe('10: the examples of the document', () => {
  test('are the bodies of the golden files', () => {
    const examples = readExamples()
    if (isWriting) writeFileSync(EXAMPLES, JSON.stringify(examples))
    const fix = 'GOLDEN=write vitest run test/monitor/api/golden.test.ts, then biome check --write'
    expect(JSON.parse(readFileSync(EXAMPLES, 'utf8')), fix).toEqual(examples)
  })

  test('each is valid by its schema, and each response has one', () => {
    let count = 0
    for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
      for (const { responses, requestBody } of Object.values(methods) as unknown as Shape[]) {
        const contents = Object.entries(responses).map(([status, { content }]) => [status, content] as const)
        for (const [status, content] of [...contents, ['request', requestBody?.content] as const]) {
          if (!content) continue
          const { schema, example, examples } = content['application/json']
          const values = examples ? Object.values(examples).map(({ value }) => value) : [example]
          for (const value of values) {
            count++
            expect(ORACLE.check(schema as never, value), `${path} ${status}`).toBeNull()
          }
        }
      }
    }
    expect(count).toBeGreaterThan(100)
  })
})

interface Content {
  'application/json': { schema: object; example?: unknown; examples?: Record<string, { value: unknown }> }
}
interface Shape {
  responses: Record<string, { content?: Content }>
  requestBody?: { content: Content }
}

function toPath(name: string): string {
  return fileURLToPath(new URL(`${name}.json`, FOLDER))
}

function expectGolden(name: string, body: string): void {
  const file = toPath(name)
  if (isWriting && !existsSync(file)) writeFileSync(file, JSON.stringify(JSON.parse(body), null, 2))
  expect(body).toBe(JSON.stringify(JSON.parse(readFileSync(file, 'utf8'))))
}

function readExamples() {
  const bodies: Record<string, Record<string, unknown>> = {}
  const read = (name: string) => JSON.parse(readFileSync(toPath(name), 'utf8'))
  for (const [file, , operation, status = 200] of CASES) {
    if (operation) bodies[operation] = { ...bodies[operation], [status]: read(file) }
  }
  bodies.submitDetection = {
    request: { url: DETECTIONS[0].url },
    200: read('detection-done'),
    ...bodies.submitDetection,
  }
  return { bodies, errors: read('errors') }
}

test('the clock of the fixtures does not move', () => expect(api.clock.ms).toBe(NOON * 1_000))
