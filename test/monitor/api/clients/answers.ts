/**
 * What generated clients must be able to hold: every example of the OpenAPI document, and what the running API answers: lists,
 * details and boards in each form, a detection in each state, each error. Each answer names its operation.
 *
 *     CLIENTS_URL=http://127.0.0.1:8090 vitest run test/monitor/api/clients     also what that monitor answers, such as the demo
 */
import { ERROR_STATUS } from '../../../../monitor/api/errors.ts'
import { openApi } from '../../../../monitor/api/schema/openapi.ts'
import { SITES } from '../fake-store.ts'
import { DETECTIONS, requestFor } from '../golden-cases.ts'
import { type ReceivedResponse, send, startApi } from '../setup.ts'

export const ANSWERS_MIN = 200
const SERVED_SITES_MAX = 200

export interface Answer {
  title: string // what it is, for the message of a failure
  path: string // as in the document: /api/v1/sites/{slug}
  method: 'get' | 'post'
  operationId: string
  status: number | 'request'
  body: unknown
}

interface Content {
  'application/json': { example?: unknown; examples?: Record<string, { value: unknown }> }
}
interface Operation {
  operationId: string
  responses: Record<string, { content?: Content }>
  requestBody?: { content: Content }
}

/** As it is published. */
export const DOCUMENT = openApi({ version: 'test', isClosed: false }) as unknown as {
  paths: Record<string, Record<string, Operation>>
}

const SITE_PATHS = [
  ...['', '?history=none', '?history=days', '?history=full', '?history=raw'],
  ...['/score', '/history', '/history?region=cn&days=2', '/history?history=raw', '/models', '/incidents'],
]

// biome-ignore format: one line each
const COMMON_PATHS = [
  '', '/openapi.json', '/meta', '/changelog', '/limits', '/codes', '/models', '/models?limit=1&q=gpt',
  '/sites', '/sites?include=summary', '/sites?tier=S', '/sites?limit=2&offset=1', '/sites?q=nothing-has-this-name',
  '/leaderboard', '/leaderboard?board=black', '/leaderboard?board=red&limit=1',
]

const listSitePaths = (slug: string) => SITE_PATHS.map((path) => `/sites/${slug}${path}`)

/** A detection that has begun. */
const RUNNING = {
  ...DETECTIONS[1],
  ...{ id: DETECTIONS[1].id.replace(/.$/, '4'), status: 'running' as const, version: 4, finishedAtSec: null },
  resultJson: JSON.stringify({ steps: createRunningSteps(), result: null }),
}

function createRunningSteps() {
  const { steps } = JSON.parse(DETECTIONS[1].resultJson!) as { steps: { name: string }[] }
  const states = ['ok', 'warn', 'error', 'skipped', 'running', 'pending', 'pending', 'pending']
  return steps.map(({ name }, i) => ({ name, status: states[i], ms: i < 4 ? 10 : null, detail: null }))
}

export async function collectAnswers(): Promise<Answer[]> {
  const url = process.env.CLIENTS_URL
  const served = url === undefined ? [] : await collectServed(Number(new URL(url).port))
  return [
    ...collectExamples(),
    ...(await collectResources()),
    ...(await collectAnonymous()),
    ...(await collectErrors()),
    ...served,
  ]
}

function collectExamples(): Answer[] {
  const found: Answer[] = []
  for (const [path, methods] of Object.entries(DOCUMENT.paths)) {
    for (const [method, { operationId, responses, requestBody }] of Object.entries(methods)) {
      const add = (status: Answer['status'], content: Content | undefined) => {
        for (const body of listExamples(content)) {
          const title = `example of ${operationId} ${status}`
          found.push({ title, path, method: method as 'get', operationId, status, body })
        }
      }
      add('request', requestBody?.content)
      for (const [status, { content }] of Object.entries(responses)) add(Number(status), content)
    }
  }
  return found
}

function listExamples(content: Content | undefined): unknown[] {
  const { example, examples } = content?.['application/json'] ?? {}
  if (examples) return Object.values(examples).map(({ value }) => value)
  return example === undefined ? [] : [example]
}

async function collectResources(): Promise<Answer[]> {
  const api = await startApi()
  try {
    const rows = [...DETECTIONS, RUNNING]
    for (const row of rows) api.store.detections.set(row.id, row)
    api.queue.restore([DETECTIONS[0]])
    const found: Answer[] = []
    const sitePaths = SITES.flatMap(({ slug }) => listSitePaths(slug))
    for (const path of [...COMMON_PATHS, ...sitePaths, ...rows.map(({ id }) => `/detections/${id}`)]) {
      api.clock.ms += 1_000 // so that no quota is met
      found.push(toAnswer('GET', `/api/v1${path}`, await api.get(`/api/v1${path}`)))
    }
    found.push(toAnswer('POST', '/api/v1/detections', await api.submit('https://new.example.com')))
    return found
  } finally {
    api.close()
  }
}

/** Of an operator who gives no address: members of links are null or empty. */
async function collectAnonymous(): Promise<Answer[]> {
  const api = await startApi({ supportEmail: '' })
  try {
    const found: Answer[] = []
    for (const path of ['/leaderboard?board=black', '/meta', '/limits', '/openapi.json'])
      found.push(toAnswer('GET', `/api/v1${path}`, await api.get(`/api/v1${path}`)))
    return found
  } finally {
    api.close()
  }
}

/** Of a monitor on this machine. Each site is read from an address of its own, so that no quota is met. */
async function collectServed(port: number): Promise<Answer[]> {
  const get = async (path: string, client = 1) => {
    const response = await send(port, 'GET', `/api/v1${path}`, { from: `127.0.7.${client}` })
    return toAnswer('GET', `/api/v1${path}`, response)
  }
  const found: Answer[] = []
  for (const path of COMMON_PATHS) found.push(await get(path))
  const { body } = await get(`/sites?limit=${SERVED_SITES_MAX}`)
  for (const [i, { slug }] of (body as { sites: { slug: string }[] }).sites.entries())
    for (const path of listSitePaths(slug)) found.push(await get(path, i + 2))
  return found
}

/** Errors that belong to an operation of the document; the others are those of paths and methods it does not have. */
async function collectErrors(): Promise<Answer[]> {
  const found: Answer[] = []
  for (const code of Object.keys(ERROR_STATUS)) {
    const { method, path, response, close } = await requestFor(code, startApi)
    close()
    if (findOperation(method, path)) found.push(toAnswer(method, path, response))
  }
  return found
}

function toAnswer(method: string, path: string, { status, json }: ReceivedResponse): Answer {
  const found = findOperation(method, path)
  if (!found) throw new Error(`${method} ${path} is not in the document`)
  return { title: `${method} ${path}`, ...found, status, body: json }
}

function findOperation(method: string, path: string): Pick<Answer, 'path' | 'method' | 'operationId'> | null {
  const wanted = path.split('?')[0].split('/')
  const lower = method.toLowerCase() as 'get'
  for (const [pattern, methods] of Object.entries(DOCUMENT.paths)) {
    const segments = pattern.split('/')
    const isMatch =
      segments.length === wanted.length && segments.every((s, i) => s.startsWith('{') || s === wanted[i])
    if (isMatch && methods[lower])
      return { path: pattern, method: lower, operationId: methods[lower].operationId }
  }
  return null
}
