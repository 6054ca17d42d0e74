/** Errors of sockets, TLS, parser and decoders as codes of the specification (6.3). */
import { expect, test } from 'vitest'
import { Failure, type Phase, toFailure } from '../../../monitor/egress/failure.ts'

// biome-ignore format: a table
const CASES: [Phase, string, string][] = [
  ['dns',     'ENOTFOUND',                  'dns_nxdomain'],
  ['dns',     'ETIMEOUT',                   'dns_timeout'],
  ['dns',     'ECANCELLED',                 'dns_timeout'],
  ['dns',     'ESERVFAIL',                  'dns_error'],
  ['connect', 'ECONNREFUSED',               'connect_refused'],
  ['connect', 'ECONNRESET',                 'connect_reset'],
  ['connect', 'EPIPE',                      'connect_reset'],
  ['connect', 'ETIMEDOUT',                  'connect_timeout'],
  ['connect', 'EHOSTUNREACH',               'connect_unreachable'],
  ['connect', 'EPROTO',                     'connect_unreachable'], // only of HTTP an alert of TLS is one
  ['tls',     'ECONNRESET',                 'tls_reset'],
  ['tls',     'EPIPE',                      'tls_reset'],
  ['tls',     'ECONNABORTED',               'tls_reset'],
  ['tls',     'ETIMEDOUT',                  'tls_timeout'],
  ['tls',     'ERR_SSL_WRONG_VERSION_NUMBER', 'tls_protocol'],
  ['http',    'ECONNRESET',                 'http_reset'],
  ['http',    'ECONNABORTED',               'http_reset'],
  ['http',    'EPIPE',                      'http_reset'],
  ['http',    'ERR_STREAM_PREMATURE_CLOSE', 'http_reset'],
  ['http',    'ETIMEDOUT',                  'http_timeout'],
  ['http',    'HPE_HEADER_OVERFLOW',        'too_large'],
  ['http',    'HPE_CHUNK_EXTENSIONS_OVERFLOW', 'too_large'],
  ['http',    'HPE_INVALID_CONSTANT',       'body_invalid'],
  ['http',    'Z_DATA_ERROR',               'body_invalid'],
  ['http',    'EPROTO',                     'tls_protocol'],
  ['http',    'ERR_SSL_TLSV13_ALERT_CERTIFICATE_REQUIRED', 'tls_protocol'],
  ['http',    'X_ERR_SSL',                  'body_invalid'],
]

test.each(CASES)('%s: %s is %s', (phase, system, code) => {
  const failure = toFailure(phase, Object.assign(new Error('text of the target'), { code: system }))
  expect(failure).toBeInstanceOf(Failure)
  expect({ ...failure }).toMatchObject({ name: 'Failure', code, detail: system, isOurs: false })
  expect(failure.message).toBe(`${code}: ${system}`)
})

test.each(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EACCES', 'EPERM'])(
  '%s is no evidence about the target',
  (code) => {
    expect(toFailure('connect', { code })).toMatchObject({
      code: 'connect_unreachable',
      detail: code,
      isOurs: true,
    })
  },
)

test('a Failure stays what it is', () => {
  const failure = new Failure('dns_bogus', 'x')
  expect(toFailure('http', failure)).toBe(failure)
})

test('a code of the target is shortened to 60 harmless characters; one that is no text is unknown', () => {
  const code = `<b>\u202e${'A1_'.repeat(30)}`
  expect(toFailure('tls', { code })).toMatchObject({
    code: 'tls_protocol',
    detail: `b${'A1_'.repeat(30)}`.slice(0, 60),
  })
  expect(toFailure('http', { code: 7 })).toMatchObject({ code: 'body_invalid', detail: 'unknown' })
  expect(toFailure('http', new Error('x')).detail).toBe('unknown')
})
