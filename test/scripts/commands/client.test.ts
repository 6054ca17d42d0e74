/** `sluice client` against a real gRPC port (spec 11.4). */
import { createServer } from 'node:net'
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import { client } from '../../../scripts/commands/client.ts'
import type { GrpcFrontend } from '../../../transports/grpc/frontend.ts'
import { grpcJsFrontend } from '../../../transports/grpc/grpc-js.ts'
import { type Listener, listen } from '../../../transports/grpc/listener.ts'
import { createUnaryMethods } from '../../../transports/grpc/services.ts'
import { captureIo } from '../../helpers/command-io.ts'
import { FakeRateLimiter } from '../../transports/fake-rate-limiter.ts'

const HOST = '127.0.0.1'
const RESPONSE =
  'statuses:{code:OK current_limit:{requests_per_unit:5 unit:MINUTE} limit_remaining:4 duration_until_reset:{seconds:37}}'

let frontend: GrpcFrontend
let listener: Listener
let limiter: FakeRateLimiter
let out: string
let err: string

async function run(...args: string[]): Promise<number> {
  const io = captureIo()
  const code = await client(args, io)
  out += io.out
  err += io.err
  return code
}

beforeAll(async () => {
  limiter = new FakeRateLimiter()
  frontend = grpcJsFrontend({ methods: createUnaryMethods(limiter, () => {}) })
  listener = await listen({ host: HOST, port: 0, onSocket: (socket) => frontend.accept(socket) })
})
afterAll(() => {
  listener.stop()
  frontend.close()
})
beforeEach(() => {
  out = ''
  err = ''
})

test('sends one request, prints its flags and the response', async () => {
  const dial = `${HOST}:${listener.port}`
  expect(
    await run(
      '-dial_string',
      dial,
      '--domain=answer',
      '-descriptors',
      'user=7,plan=',
      '--descriptors=path=/',
    ),
  ).toBe(0)
  expect(out).toBe(
    [
      'Flag: --descriptors="[ <key=user, value=7>  <key=plan, value=> ] [ <key=path, value=/> ] "',
      `Flag: --dial_string="${dial}"`,
      'Flag: --domain="answer"',
      'Flag: --grpc-cert-file=""',
      'Flag: --grpc-key-file=""',
      'Flag: --grpc-server-ca-file=""',
      'Flag: --grpc-use-tls="false"',
      'Flag: --oltp-protocol=""',
      `response: overall_code:OK ${RESPONSE}`,
      '',
    ].join('\n'),
  )
  expect(err).toBe('')
  const entry = (key: string, value: string) => ({ key, value })
  expect(limiter.requests.at(-1)).toEqual({
    domain: 'answer',
    descriptors: [
      { entries: [entry('user', '7'), entry('plan', '')], limit: null, hitsAddend: null },
      { entries: [entry('path', '/')], limit: null, hitsAddend: null },
    ],
    hitsAddend: 1,
  })
})

test('over limit is a response: exit 0', async () => {
  expect(await run('-dial_string', `${HOST}:${listener.port}`, '-domain', 'over')).toBe(0)
  expect(out).toMatch(/^response: overall_code:OVER_LIMIT statuses:/m)
})

test('an error of the service: exit 1, printed on stdout', async () => {
  expect(await run('-dial_string', `${HOST}:${listener.port}`, '-domain', 'fail')).toBe(1)
  expect(out).toMatch(/\nrequest error: rpc error: code = Unknown desc = no rules today\n$/)
})

test('a refused connection: exit 1, with the reason', async () => {
  const server = createServer().listen(0, HOST)
  await new Promise((resolve) => server.once('listening', resolve))
  const { port } = server.address() as { port: number }
  await new Promise((resolve) => server.close(resolve))
  expect(await run('-dial_string', `${HOST}:${port}`)).toBe(1)
  expect(out).toMatch(/\nrequest error: rpc error: code = Unavailable desc = .*ECONNREFUSED/)
})

test('a missing certificate file: exit 1', async () => {
  expect(await run('-grpc-use-tls', '-grpc-server-ca-file', '/nowhere/ca.pem')).toBe(1)
  expect(out).toMatch(/\nerror connecting: ENOENT.*ca\.pem/)
})

test('a service without TLS: exit 1', async () => {
  expect(await run('-grpc-use-tls=true', '-dial_string', `localhost:${listener.port}`)).toBe(1)
  expect(out).toMatch(/\nrequest error: rpc error: code = Unavailable desc = /)
})

test('-oltp-protocol is accepted, with a note that no traces are sent', async () => {
  await run('-oltp-protocol', 'http', '-domain', 'answer', '-dial_string', `${HOST}:${listener.port}`)
  expect(err).toBe('note: -oltp-protocol is set, but this client sends no traces\n')
})

test('--help', async () => {
  for (const flag of ['--help', '-h']) expect(await run(flag)).toBe(0)
  expect(out).toMatch(/^Usage of sluice client/)
  expect(err).toBe('')
})

describe('wrong usage: exit 2, the reason and the usage on stderr', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    [['-nope'],                       'flag provided but not defined: -nope'],
    [['--nope=1'],                    'flag provided but not defined: -nope'],
    [['-domain'],                     'flag needs an argument: -domain'],
    [['---domain', 'd'],              'bad flag syntax: ---domain'],
    [['-=d'],                         'bad flag syntax: -=d'],
    [['-grpc-use-tls=maybe'],         'invalid boolean value "maybe" for -grpc-use-tls: parse error'],
    [['-descriptors', 'k'],           'invalid value "k" for flag -descriptors: invalid descriptor list'],
    [['-descriptors', 'k=v=w'],       'invalid value "k=v=w" for flag -descriptors: invalid descriptor list'],
    [['-descriptors', 'k=v,'],        'invalid value "k=v," for flag -descriptors: invalid descriptor list'],
    [['-descriptors', ''],            'invalid value "" for flag -descriptors: invalid descriptor list'],
  ] as const
  for (const [args, reason] of cases) {
    test(`${args.join(' ')}: ${reason}`, async () => {
      expect(await run(...args)).toBe(2)
      expect(err.startsWith(`${reason}\nUsage of sluice client`)).toBe(true)
      expect(out).toBe('')
    })
  }
})
