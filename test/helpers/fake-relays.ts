/**
 * Small HTTP servers of this machine that respond as the real relay programs do, or misbehave as real sites do. For the
 * tests of the monitor and for its demo.
 *
 *     const relay = await startFakeRelay('new-api')                  http://127.0.0.2:<port>
 *     const other = await startFakeRelay('open', { tls: { cert, key } })
 *     relay.requests    // paths, in order
 *     relay.turn('open')   // the same port, from now on another kind of relay
 *
 * A response depends on the path and on the number of earlier requests. A new kind is one entry of RELAYS.
 */
import type { IncomingMessage, RequestListener, ServerResponse } from 'node:http'
import { createServer } from 'node:http'
import { createServer as createTlsServer } from 'node:https'
import type { AddressInfo, Socket } from 'node:net'

const { setTimeout, clearTimeout } = globalThis // a relay stands for another machine: its time passes while a test has fake timers

export interface Reply {
  status?: number
  headers?: Record<string, string>
  body?: unknown // a string is sent as it is, everything else as JSON
  deed?: 'reset' | 'cut' | 'hang' // instead of a response; after half of it; no response at all
  delayMs?: number
}

export interface Asked {
  path: string
  count: number // requests before this one
  key: string | null // of `authorization: Bearer`
  delayMs: number // of slow relays
}

type Relay = (asked: Asked) => Reply

export interface FakeRelay {
  kind: RelayKind
  port: number
  requests: string[]
  connections: number
  userAgent: string // of the latest request
  turn(kind: RelayKind): void
  close(): Promise<void>
}

export interface FakeRelayOptions {
  host?: string // default 127.0.0.2
  port?: number // default any
  tls?: { cert: Buffer | string; key: Buffer | string }
  delayMs?: number // default 3,500: slower than PROBE_SLOW_MS
}

export const KEY = 'sk-of-a-test' // accepted by relays that require one
export const MODELS = ['gpt-5.4', 'claude-sonnet-4-6', 'gemini-3-pro']

const list = (ids: readonly string[]) => ({
  object: 'list',
  data: ids.map((id) => ({ id, object: 'model', owned_by: 'custom' })),
})
const page = (title: string, body = ''): Reply => ({
  headers: { 'content-type': 'text/html; charset=utf-8' },
  body: `<!doctype html><html><head><title>${title}</title></head><body>${body}</body></html>`,
})
const missing: Reply = { status: 404, ...page('404') }
const keyError = (type: string, message = 'Invalid token') => ({
  status: 401,
  body: { error: { code: '', message, type } },
})

/** Responses by path, a model list that requires KEY, and headers on all responses. */
function program(
  paths: Record<string, Reply>,
  {
    error,
    headers = {},
    models = MODELS,
  }: { error: Reply; headers?: Record<string, string>; models?: string[] },
): Relay {
  return ({ path, key }) => {
    const listing = key === KEY ? { body: list(models) } : error
    const reply = path.endsWith('/v1/models') ? listing : (paths[path] ?? missing)
    return { ...reply, headers: { ...headers, ...reply.headers } }
  }
}

const oneApiStatus = {
  version: 'v0.6.10',
  start_time: 1_790_000_000,
  system_name: 'One API',
  quota_per_unit: 500_000,
  chat_link: '',
  display_in_currency: true,
  top_up_link: 'https://pay.example.org/',
}
const newApiStatus = {
  version: 'v1.0.0',
  start_time: 1_790_000_000,
  system_name: 'My relay\u202e',
  quota_per_unit: 500_000,
  display_in_currency: true,
  quota_display_type: 'USD',
  self_use_mode_enabled: false,
  uptime_kuma_enabled: true,
  HeaderNavModules: '',
  top_up_link: '',
}
const oneHubStatus = {
  ...oneApiStatus,
  chat_links: '',
  PaymentUSDRate: 7.3,
  PaymentMinAmount: 1,
  telegram_bot: '',
}
const status = (data: object): Reply => ({ body: { success: true, message: '', data } })
const pricing = (names: readonly string[]): Reply => ({
  body: {
    success: true,
    data: names.map((model_name) => ({ model_name, quota_type: 0, model_ratio: 1 })),
    group_ratio: { default: 1 },
    usable_group: { default: 'default' },
    supported_endpoint: {},
    pricing_version: '1',
  },
})

const newApi = (claimed: readonly string[], models = MODELS) =>
  program(
    { '/': page('My relay'), '/api/status': status(newApiStatus), '/api/pricing': pricing(claimed) },
    {
      error: keyError('new_api_error'),
      headers: { 'x-new-api-version': 'v1.0.0', 'x-oneapi-request-id': '20261121' },
      models,
    },
  )

export const RELAYS = {
  'new-api': newApi(MODELS),
  'one-api': program(
    { '/': page('One API'), '/api/status': status(oneApiStatus) },
    { error: keyError('one_api_error'), headers: { 'x-oneapi-request-id': '20261121' } },
  ),
  'one-hub': program(
    {
      '/': page('One Hub'),
      '/api/status': status(oneHubStatus),
      '/api/available_model': {
        body: { success: true, message: '', data: { 'gpt-5.4': {}, 'o9-mini': {} } },
      },
    },
    { error: keyError('one_hub_error'), headers: { 'x-oneapi-request-id': '20261121' } },
  ),
  'done-hub': program(
    { '/': page('Done Hub'), '/api/status': status({ ...oneHubStatus, system_name: 'Done Hub' }) },
    { error: keyError('one_hub_error') },
  ),
  veloera: program(
    { '/': page('Veloera'), '/api/status': status({ ...newApiStatus, system_name: 'Veloera' }) },
    { error: keyError('veloera_error') },
  ),
  sub2api: program(
    {
      '/': page('Sub2API'),
      '/health': { body: { status: 'ok' } },
      '/setup/status': {
        body: { code: 0, message: 'success', data: { needs_setup: false, step: 'completed' } },
      },
      '/api/v1/settings/public': {
        body: { code: 0, message: 'success', data: { site_name: 'Sub2API', version: '0.1.121' } },
      },
    },
    { error: { status: 401, body: { code: 'API_KEY_REQUIRED', message: 'API key is required' } } },
  ),
  'claude-relay-service': program(
    {
      '/': { status: 302, headers: { location: '/admin-next/api-stats' } },
      '/admin-next/api-stats': page('Claude Relay Service'),
      '/health': { body: { status: 'healthy', service: 'claude-relay-service', version: '1.1.200' } },
    },
    { error: { status: 401, body: { error: 'Missing API key', message: 'Please provide an API key' } } },
  ),
  litellm: program(
    { '/': page('LiteLLM API - Swagger UI'), '/health/liveliness': { body: '"I\'m alive!"' } },
    { error: keyError('auth_error', 'No api key passed in.'), headers: { 'x-litellm-version': '1.80.0' } },
  ),
  /** Lists more models than it has; its errors name its supplier. */
  liar: ({ path, ...asked }) => {
    if (path === '/v1/models') return { body: list(['gpt-5.4']) }
    const claimed = ['gpt-5.4', 'gpt-5.4-pro', 'claude-opus-5', 'o9', 'gemini-3-pro']
    if (path === '/')
      return { status: 502, body: { error: { message: 'Post "https://api.openai.com/v1/x": EOF' } } }
    return newApi(claimed)({ path, ...asked })
  },
  open: ({ path }) =>
    path === '/v1/models' ? { body: list(MODELS) } : path === '/' ? page('Open') : missing,
  'open-models': ({ path }) =>
    path === '/v1/models' ? { body: { models: [{ name: 'models/gemini-3-pro' }, 'gpt-5.4'] } } : missing,
  empty: ({ path }) => (path === '/v1/models' ? { body: list([]) } : missing),
  /** Ids of every kind that must not be stored as they are. */
  wild: ({ path }) => {
    if (path !== '/v1/models') return missing
    const many = Array.from({ length: 6_000 }, (_, i) => `m-${i}`)
    const odd = [
      ' gpt-5.4\n',
      'gpt-5.4',
      'models/x',
      'a\u202eb',
      'y'.repeat(129),
      '',
      7,
      null,
      {},
    ] as string[]
    return { body: list([...odd, 'z'.repeat(128), ...many]) }
  },
  'key-only': ({ path }) => (path === '/v1/models' ? { status: 403, body: { detail: 'no' } } : missing),
  /** Its error contains the refused key. */
  echo: ({ path, key }) => (path === '/v1/models' ? keyError('x', `Incorrect key: ${key}`) : missing),
  /** An unknown program with a broken model list and a valid price list. */
  priced: ({ path }) => {
    if (path === '/v1/models') return { status: 500, body: { error: { message: 'panic' } } }
    const rows = [{ model_name: 'gpt-5.4' }, { model_name: 'claude-opus-5' }]
    return path === '/api/pricing' ? { body: { data: rows } } : missing
  },
  slow: ({ path, delayMs }) => (path === '/v1/models' ? { body: list(MODELS), delayMs } : missing),
  /** Every second request fails. */
  flapping: ({ path, count }) =>
    count % 2 === 1
      ? { status: 502, ...page('Bad gateway') }
      : path === '/v1/models'
        ? { body: list(MODELS) }
        : missing,
  plain: () => page('A blog', '<p>Nothing to relay here.</p>'),
  'json-elsewhere': () => ({ body: { hello: 'world' } }),
  'broken-json': () => ({ headers: { 'content-type': 'application/json' }, body: '{"data":[{"id":' }),
  'html-401': () => ({ status: 401, ...page('Log in') }),
  challenge: () => ({
    status: 403,
    headers: {
      'content-type': 'text/html',
      'cf-mitigated': 'challenge',
      'cf-ray': '8d1',
      server: 'cloudflare',
    },
    body: '<!doctype html><title>Just a moment...</title>',
  }),
  'challenge-marks': () => ({
    status: 503,
    ...page('Wait', '<script src="/.well-known/ddos-guard/js"></script>'),
  }),
  parked: () => page('example', '<p>This domain is for sale! Buy this domain.</p>'),
  gone: () => missing,
  failing: () => ({ status: 500, body: { error: { message: 'panic' } } }),
  'too-many': () => ({
    status: 429,
    headers: { 'retry-after': '120' },
    body: { error: { message: 'slow down' } },
  }),
  busy: () => ({ status: 503, headers: { 'retry-after': '7200' }, body: 'busy' }),
  huge: ({ path }) => (path === '/v1/models' ? { body: list([`${'x'.repeat(1_100_000)}`]) } : missing),
  'redirect-loop': () => ({ status: 302, headers: { location: '/v1/models' } }),
  'redirect-private': () => ({ status: 302, headers: { location: 'http://10.0.0.1/' } }),
  /** Over TLS: leads back to http. */
  downgrade: () => ({ status: 301, headers: { location: 'http://relay.example.org/' } }),
  reset: () => ({ deed: 'reset' }),
  'reset-in-the-middle': () => ({ deed: 'cut', body: list(MODELS) }),
  silent: () => ({ deed: 'hang' }),
} satisfies Record<string, Relay>
export type RelayKind = keyof typeof RELAYS

export async function startFakeRelay(kind: RelayKind, options: FakeRelayOptions = {}): Promise<FakeRelay> {
  const { host = '127.0.0.2', port = 0, tls, delayMs = 3_500 } = options
  let current = kind
  const sockets = new Set<Socket>()
  const serve: RequestListener = (request, response) => {
    const [path] = (request.url as string).split('?')
    const key = /^Bearer (.+)$/.exec(request.headers.authorization ?? '')?.[1] ?? null
    relay.requests.push(path)
    relay.userAgent = request.headers['user-agent'] ?? ''
    const count = relay.requests.length - 1
    const reply: Reply = (RELAYS[current] as Relay)({ path, count, key, delayMs })
    const timer = setTimeout(() => respond(reply, request, response), reply.delayMs ?? 0)
    response.once('close', () => clearTimeout(timer))
  }
  const server = tls
    ? createTlsServer({ ...tls, ALPNProtocols: ['h2', 'http/1.1'] }, serve)
    : createServer(serve)
  const relay: FakeRelay = {
    kind,
    port,
    requests: [],
    connections: 0,
    userAgent: '',
    turn: (next) => {
      current = next
    },
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
  server.on('connection', (socket: Socket) => {
    relay.connections++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => sockets.delete(socket))
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
  relay.port = (server.address() as AddressInfo).port
  return relay
}

function respond(
  { status = 200, headers = {}, body = '', deed }: Reply,
  request: IncomingMessage,
  response: ServerResponse,
) {
  if (deed === 'hang') return
  if (deed === 'reset') {
    request.socket.resetAndDestroy()
    return
  }
  const bytes = Buffer.from(typeof body === 'string' ? body : JSON.stringify(body))
  const type = typeof body === 'string' ? 'text/plain' : 'application/json'
  response.writeHead(status, { 'content-type': type, 'content-length': bytes.length, ...headers })
  if (deed === 'cut') response.write(bytes.subarray(0, bytes.length / 2), () => request.socket.destroy())
  else response.end(bytes)
}
