/** REDIS_URL, REDIS_SOCKET_TYPE and REDIS_AUTH (spec 9.1, 9.2), and their masked form in logs (9.5). */
import { expect, test } from 'vitest'
import {
  maskRedisUrl,
  parseClusterSeeds,
  parseRedisAddress,
  parseSentinels,
} from '../../../../engine/stores/redis/address.ts'

// biome-ignore format: the columns are the specification
const good = [
  // URL,                                       type,   auth       -> where                     user    password   db
  ['/var/run/redis.sock',                       'unix', '',           'unix /var/run/redis.sock',  '',    '',        0],
  ['relative.sock',                             'unix', 'pw',         'unix relative.sock',        '',    'pw',      0],
  ['localhost:6379',                            'tcp',  '',           'localhost 6379',            '',    '',        0],
  ['redis.svc.local:1',                         'tcp',  'bob:pw',     'redis.svc.local 1',         'bob', 'pw',      0],
  [':6380',                                     'tcp',  ':pw',        'localhost 6380',            '',    'pw',      0],
  ['[::1]:6379',                                'tcp',  'bob:a:b',    '::1 6379',                  'bob', 'a:b',     0],
  ['10.0.0.1:65535',                            'tcp4', '',           '10.0.0.1 65535 4',          '',    '',        0],
  ['host:6379',                                 'tcp6', '',           'host 6379 6',               '',    '',        0],
  ['redis://host',                              'tcp',  '',           'host 6379',                 '',    '',        0],
  ['redis://host:7000/',                        'unix', '',           'host 7000',                 '',    '',        0],
  ['redis://[::1]:7000/5',                      'tcp',  '',           '::1 7000',                  '',    '',        5],
  ['redis://bob:p%40w@host:7000/5',             'tcp',  '',           'host 7000',                 'bob', 'p@w',     5],
  ['redis://:p%3Aw@host',                       'tcp',  '',           'host 6379',                 '',    'p:w',     0],
  ['redis://host?username=bob&password=pw&db=2', 'tcp', '',           'host 6379',                 'bob', 'pw',      2],
  ['redis://bob:pw@host?db=3',                  'tcp',  'ann:other',  'host 6379',                 'ann', 'other',   3],
  ['redis://bob:pw@host',                       'tcp',  'other',      'host 6379',                 '',    'other',   0],
] as const

for (const [url, socketType, auth, where, username, password, db] of good) {
  test(`9.1#1: ${url} by ${socketType}, auth "${auth}"`, () => {
    const address = parseRedisAddress({ url, socketType, auth })
    const { path, host, port, family } = address
    expect(path ? `unix ${path}` : `${host} ${port}${family ? ` ${family}` : ''}`).toBe(where)
    expect([address.username, address.password, address.db]).toEqual([username, password, db])
  })
}

const FIX = 'Write host:port, redis://user:password@host:port/db, or a path with REDIS_SOCKET_TYPE=unix.'

// biome-ignore format: the columns are the specification
const bad = [
  // URL,                    type   -> message
  ['',                      'tcp',  `REDIS_URL "": it is empty. ${FIX} [REDIS_URL_INVALID]`],
  ['host',                  'tcp',  `REDIS_URL "host": it is not host:port. ${FIX} [REDIS_URL_INVALID]`],
  ['::1:6379',              'tcp',  `REDIS_URL "::1:6379": it is not host:port. ${FIX} [REDIS_URL_INVALID]`],
  ['host:0',                'tcp',  `REDIS_URL "host:0": it is not host:port. ${FIX} [REDIS_URL_INVALID]`],
  ['host:65536',            'tcp',  `REDIS_URL "host:65536": it is not host:port. ${FIX} [REDIS_URL_INVALID]`],
  ['/a.sock',               'tcp',  `REDIS_URL "/a.sock": it is not host:port. ${FIX} [REDIS_URL_INVALID]`],
  ['redis://:6379',         'tcp',  `REDIS_URL "redis://:6379": it is not a redis:// URL. ${FIX} [REDIS_URL_INVALID]`],
  ['http://host',           'tcp',  `REDIS_URL "http://host": it is not a redis:// URL. ${FIX} [REDIS_URL_INVALID]`],
  ['redis://b:pw@host/one', 'tcp',  `REDIS_URL "redis://*****@host/one": "one" is not a database number. ${FIX} [REDIS_URL_INVALID]`],
  ['redis://b:p%w@host',    'tcp',  `REDIS_URL "redis://*****@host": its user or password has an invalid % escape. ${FIX} [REDIS_URL_INVALID]`],
  ['rediss://b:pw@host',    'tcp',  'REDIS_URL "rediss://*****@host": rediss:// is not supported. Write redis:// and set REDIS_TLS=true. [REDIS_URL_SCHEME]'],
  ['host:6379',             'udp',  'REDIS_SOCKET_TYPE: "udp" is not a socket type. Write tcp or unix. [REDIS_SOCKET_TYPE_UNKNOWN]'],
] as const

for (const [url, socketType, message] of bad) {
  test(`"${url}" by ${socketType} is refused`, () => {
    const parse = () => parseRedisAddress({ url, socketType, auth: 'secret' })
    expect(parse).toThrow(expect.objectContaining({ message: expect.stringContaining(message), exitCode: 2 }))
  })
}

test('errors of the second instance name its settings', () => {
  const parse = (url: string) => () =>
    parseRedisAddress({ url, socketType: 'tcp', auth: '', variable: 'REDIS_PERSECOND_URL' })
  expect(parse('host')).toThrow(/^REDIS_PERSECOND_URL "host": .* REDIS_PERSECOND_SOCKET_TYPE=unix\./)
  expect(parse('rediss://host')).toThrow('Write redis:// and set REDIS_PERSECOND_TLS=true.')
})

// biome-ignore format: the columns are the specification
const masks = [
  ['host:6379',                         'host:6379'],
  ['/var/run/redis.sock',               '/var/run/redis.sock'],
  ['redis://host:6379',                 'redis://host:6379'],
  ['redis://bob:pw@host:6379',          'redis://*****@host:6379'],
  ['redis://bob:p@w@host',              'redis://*****@host'],
  ['redis://:p,w@host:6379',            'redis://*****@host:6379'], // these three were once shown unmasked
  ['REDIS://u:pw@host',                 'REDIS://*****@host'],
  ['u:pw@host:6379',                    '*****@host:6379'],
  ['redis://host?PASSWORD=pw',          'redis://host?PASSWORD=*****'],
  ['redis://a:b@c,redis://d:e@f,g:1',   'redis://*****@c,redis://*****@f,g:1'],
  ['redis://host?db=1&password=pw&x=1', 'redis://host?db=1&password=*****&x=1'],
] as const

for (const [url, masked] of masks)
  test(`${url} is shown as ${masked}`, () => expect(maskRedisUrl(url)).toBe(masked))

test('9.1#2: sentinels: the name of the master, then their addresses; nothing is trimmed', () => {
  const { master, sentinels } = parseSentinels('my master,a:26379,redis://bob:p%3Aw@b:1,[::1]:2', 'ann:x:y')
  expect(master).toBe('my master')
  expect(sentinels.map(({ host, port, username, password }) => [host, port, username, password])).toEqual([
    ['a', 26_379, 'ann', 'x:y'],
    ['b', 1, 'ann', 'x:y'],
    ['::1', 2, 'ann', 'x:y'],
  ])
  expect(parseSentinels('m,redis://bob:pw@b:1', '').sentinels[0]).toMatchObject({
    username: 'bob',
    password: 'pw',
  })
})

test('9.1: a cluster: any of its nodes; the credentials of the first apply to all', () => {
  const seeds = parseClusterSeeds('redis://bob:pw@a:1/3,b:2', '')
  expect(seeds.map(({ host, port, username, password, db }) => [host, port, username, password, db])).toEqual(
    [
      ['a', 1, 'bob', 'pw', 0],
      ['b', 2, 'bob', 'pw', 0],
    ],
  )
  expect(parseClusterSeeds('a:1,b:2', ':pw').map(({ password }) => password)).toEqual(['pw', 'pw'])
})

const FORMAT =
  'Expected master name and a list of urls for the sentinels, in the format: <redis master name>,<sentinel1>,...,<sentineln>'

// biome-ignore format: the columns are the specification
const badLists = [
  [() => parseSentinels('mymaster', ''),               `REDIS_URL "mymaster": ${FORMAT} [REDIS_URL_INVALID]`],
  [() => parseSentinels('', '', 'REDIS_PERSECOND_URL'), `REDIS_PERSECOND_URL "": ${FORMAT} [REDIS_URL_INVALID]`],
  [() => parseSentinels('m,', ''),                     'REDIS_URL "": it is empty.'],
  [() => parseClusterSeeds('a:1,b', ''),               'REDIS_URL "b": it is not host:port.'],
] as const

for (const [parse, message] of badLists) {
  test(`9.1: ${message}`, () => expect(parse).toThrow(message))
}
