import { expect, test } from 'vitest'
import { accessWarning, isOwnHost, ownNames } from '../../../transports/debug/access.ts'

// biome-ignore format: the columns are the specification
const cases = [
  // host, token -> warns
  ['0.0.0.0',          '',  true],
  ['::',               '',  true],
  ['10.0.0.1',         '',  true],
  ['127.0.0.1.org',    '',  true],
  ['a.localhost',      '',  true],
  ['127.0.0.1',        '',  false],
  ['127.1.2.3',        '',  false],
  ['::ffff:127.0.0.1', '',  false],
  ['::1',              '',  false],
  ['localhost',        '',  false],
  ['0.0.0.0',          't', false],
] as const

for (const [host, token, warns] of cases) {
  test(`6.5: the debug port on ${host} with token "${token}" ${warns ? 'warns' : 'does not warn'}`, () => {
    expect(accessWarning(host, token) !== null).toBe(warns)
  })
}

test('6.5: the warning names the settings', () => {
  expect(accessWarning('0.0.0.0', '')).toContain('Set DEBUG_TOKEN, or DEBUG_HOST=127.0.0.1.')
})

const NAMES = ownNames('Box.example.net', '0.0.0.0', 'debug.example.org', '[::1]', '')

// biome-ignore format: the columns are the specification
const hosts = [
  // Host header -> may be asked by it, without a token
  ['127.0.0.1:6070',             true],
  ['203.0.113.7',                true],
  ['[::1]:6070',                 true],
  ['[2001:db8::1]',              true],
  ['localhost:6070',             true],
  ['LOCALHOST',                  true],
  ['localhost.:6070',            true],
  ['a.localhost',                true],
  ['ratelimit:6070',             true], // a service of Docker Compose: nobody can register it
  ['box.example.net:6070',       true], // the machine's own name
  ['BOX.example.net.',           true],
  ['debug.example.org',          true], // DEBUG_ALLOWED_HOSTS
  ['evil.example',               false],
  ['evil.example:6070',          false],
  ['a.debug.example.org',        false],
  ['127.0.0.1.evil.example',     false],
  ['localhost.evil.example',     false],
  ['xlocalhost.evil',            false],
  ['evil.example:6070:127.0.0.1', false],
  ['127.0.0.1@evil.example',     false],
  ['[evil.example]',             false],
  ['[::1].evil.example',         false],
  ['[::1]evil:6070',             false],
  ['[localhost]',                false],
  ['a:.evil.example',            false],
  ['a:80.evil.example',          false],
  ['a:80:80',                    false],
  ['localhost:',                 true], // RFC 3986: a port may be empty
  ['[',                          false],
  [':6070',                      false],
  ['',                           false],
  ['.',                          false],
  ['a'.repeat(16_000),           false],
] as const

for (const [host, isOwn] of hosts) {
  test(`6.5: without a token, Host: ${host.slice(0, 40)} is ${isOwn ? 'answered' : 'refused'}`, () => {
    expect(isOwnHost(host, NAMES)).toBe(isOwn)
    expect(isOwnHost(host, ownNames('*'))).toBe(true)
  })
}
