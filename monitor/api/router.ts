/**
 * Finds the endpoints of a path (spec 1.1): version first, then path. The caller selects by method.
 *
 *     /api/v1/sites/example-relay  ─► getSite, { slug: 'example-relay' }
 *     /api/v7/sites                ─► unknown_version      /api/v1/nothing ─► not_found
 */
import { ApiError } from './errors.ts'
import { ENDPOINTS, type Endpoint } from './schema/endpoints.ts'

export interface Route {
  pattern: string // for logs and metrics: `/api/v1/sites/{slug}`
  endpoints: readonly Endpoint[] // one per method
  argument: string // the value of the path's parameter; '' without one
}

interface Pattern {
  pattern: string
  segments: readonly string[]
  endpoints: Endpoint[]
}

const BASE = '/api/v1'
const patterns: Pattern[] = []
for (const endpoint of ENDPOINTS) {
  const pattern = BASE + (endpoint.path === '/' ? '' : endpoint.path)
  const known = patterns.find((each) => each.pattern === pattern)
  if (known) known.endpoints.push(endpoint)
  else patterns.push({ pattern, segments: splitPath(pattern), endpoints: [endpoint] })
}

/** Throws an ApiError: `unknown_version` or `not_found`. One slash at the end is treated as absent. */
export function findRoute(path: string): Route {
  const segments = splitPath(path.endsWith('/') ? path.slice(0, -1) : path)
  const version = segments[1] ?? ''
  if (version !== 'v1' && /^v[0-9]+$/.test(version)) {
    throw new ApiError('unknown_version', 'this version of the API is not served; the newest is v1')
  }
  for (const { pattern, segments: wanted, endpoints } of patterns) {
    if (wanted.length !== segments.length) continue
    if (!wanted.every((segment, i) => segment.startsWith('{') || segment === segments[i])) continue
    const at = wanted.findIndex((segment) => segment.startsWith('{'))
    return { pattern, endpoints, argument: at < 0 ? '' : decode(segments[at]) }
  }
  throw new ApiError('not_found', 'there is no such path; see /api/v1')
}

/** The value of Allow. */
export function listMethods({ endpoints }: Route): string {
  const methods = endpoints.flatMap(({ method }) => (method === 'GET' ? ['GET', 'HEAD'] : [method]))
  return [...methods, 'OPTIONS'].join(', ')
}

function splitPath(path: string): string[] {
  return path.split('/').slice(1)
}

/** A segment that cannot be decoded is returned as it is: no slug or id equals it. */
function decode(segment: string): string {
  try {
    return decodeURIComponent(segment)
  } catch {
    return segment
  }
}
