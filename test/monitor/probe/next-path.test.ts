/** Which paths are asked of whom, when only some can be; and that each is asked once. */
import { expect, test } from 'vitest'
import { OWN_PATHS } from '../../../monitor/probe/fingerprints.ts'
import { selectNextPath } from '../../../monitor/probe/next-path.ts'
import type { ProbeResponse } from '../../../monitor/probe/probe-response.ts'

const createResponse = (
  path: string,
  json: unknown,
  status = 200,
  headers: Record<string, string> = {},
): ProbeResponse => ({
  ...{ path, finalPath: path, status, headers: new Map(Object.entries(headers)) },
  ...{ text: typeof json === 'string' ? json : JSON.stringify(json), json, hasJsonType: true, isHtml: false },
})

const settings = '/api/v1/settings/public'
const anyOrder = [settings, '/health', '/health/liveliness', '/setup/status', '/api/available_model']
const first = (...paths: string[]) => [...paths, ...anyOrder.filter((path) => !paths.includes(path))]
const refused = (body: object) => createResponse('/v1/models', body, 401)
const noKey = refused({ code: 'API_KEY_REQUIRED', message: 'API key is required' })
const site = { code: 0, data: { site_name: 'x' } }
const siteVersion = { code: 0, data: { site_name: 'x', version: '0.1.121' } }
const lands = { ...createResponse('/', ''), finalPath: '/admin-next/api-stats' }
const oneApi = { 'x-oneapi-request-id': '1' }

// biome-ignore format: the columns are the specification
const cases: [string, ProbeResponse[], string[]][] = [
  // what was answered                    paths that follow, when none of them answers
  ['nothing',                             [],                                                              anyOrder],
  ['the refusal of sub2api',              [noKey],                                                         first(settings, '/setup/status')],
  ['a health that is ok',                 [createResponse('/health', { status: 'ok' })],                           first(settings, '/setup/status')],
  ['sub2api with its version',            [noKey, createResponse(settings, siteVersion)],                          []],
  ['sub2api, which hides its version',    [noKey, createResponse(settings, site)],                                 [settings]],
  ['a landing page at /admin-next/',      [lands],                                                         first('/health')],
  ['a landing page of litellm',           [createResponse('/', '<title>LiteLLM API - Swagger UI</title>')],        first('/health/liveliness')],
  ['the refusal of litellm',              [refused({ error: { type: 'auth_error' } })],                    first('/health/liveliness')],
  ['litellm with its version',            [createResponse('/', '', 200, { 'x-litellm-version': '1.80.0' })],       []],
  ['a status with a name',                [createResponse('/api/status', { data: { system_name: 'x' } })],         first('/api/available_model')],
  ['one-api, whose claims stand there',   [createResponse('/', '', 200, oneApi)],                                  ['/api/available_model']],
  ['new-api',                             [createResponse('/', '', 200, { ...oneApi, 'x-new-api-version': 'v1' })], []],
]
for (const [what, answers, paths] of cases) {
  test(`6.1: after ${what}: ${paths.slice(0, 2).join(', ') || 'nothing more'}`, () => {
    const requested = new Set<string>()
    for (let i = 0; i <= OWN_PATHS.length; i++) {
      const path = selectNextPath(answers, requested)
      if (path === null) break
      requested.add(path)
    }
    expect([...requested]).toEqual(paths)
  })
}
