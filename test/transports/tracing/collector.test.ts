import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { describe, expect, onTestFinished, test } from 'vitest'
import { ConfigurationError } from '../../../engine/runtime/errors.ts'
import { collectorUrl, connectionRefused } from '../../../transports/tracing/collector.ts'
import { freePort } from '../../helpers/ports.ts'

const GENERAL = 'OTEL_EXPORTER_OTLP_ENDPOINT'
const TRACES = 'OTEL_EXPORTER_OTLP_TRACES_ENDPOINT'

describe('11.3: endpoints that are one', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // protocol, OTEL_EXPORTER_OTLP_ENDPOINT -> where
    ['http', '',                        'localhost:4318'],
    ['http', '  ',                      'localhost:4318'],
    ['http', 'http://collector:4318',   'collector:4318'],
    ['http', 'https://user:pw@host/x/', 'host'          ],
    ['http', 'HTTP://[::1]:9',          '[::1]:9'       ],
    ['grpc', '',                        'localhost:4317'],
    ['grpc', 'http://collector:4317',   'collector:4317'],
    ['grpc', 'collector:4317',          'collector:4317'],
    ['grpc', ' collector:4317 ',        'collector:4317'],
    ['grpc', '127.0.0.1:4317',          '127.0.0.1:4317'],
    ['grpc', 'unix:///run/otel.sock',   ''              ],
  ] as const
  for (const [protocol, value, where] of cases)
    test(`${protocol}, "${value}"`, () =>
      expect(collectorUrl(protocol, { [GENERAL]: value }).host).toBe(where))

  test('the endpoint for traces wins over the general one', () => {
    expect(collectorUrl('http', { [GENERAL]: ':::', [TRACES]: 'http://a:1' }).host).toBe('a:1')
  })
})

describe('11.3: invalid endpoints end the start', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // protocol, value -> as it is shown
    ['http', ':::',                         ':::'                      ],
    ['http', 'localhost:4318',              'localhost:4318'           ],
    ['http', 'ftp://host',                  'ftp://host'               ],
    ['http', 'http://',                     'http://'                  ],
    ['http', 'http://host:4318 ',           'http://host:4318 '        ],
    ['http', 'me:s3cret@host:4318',         '*****@host:4318'          ],
    ['http', 'http://me:s3/?cret@host:x?y', 'http://*****@host:x?*****'],
    ['http', 'http://host:x/?key=s3cret',   'http://host:x/?*****'     ],
    ['grpc', ':::',                         ':::'                      ],
    ['grpc', 'ftp://host:4317',             'ftp://host:4317'          ],
    ['grpc', 'me:s3cret@host:x',            '*****@host:x'             ],
    ['grpc', 'http://[bad',                 'http://[bad'              ],
  ] as const
  for (const variable of [GENERAL, TRACES])
    for (const [protocol, value, shown] of cases)
      test(`${variable}, ${protocol}, "${value}"`, () => {
        const use = () => collectorUrl(protocol, { [variable]: value })
        expect(use).toThrow(ConfigurationError)
        expect(use).toThrow(
          `${variable}: "${shown}" is not an address of a collector over ${protocol}. Set it to `,
        )
        expect(use).not.toThrow(/s3|cret/)
      })
})

describe('11.3: whether a collector is there', () => {
  const { signal } = new AbortController()

  test('a refusing port, an unknown name, a missing socket: the error', async () => {
    const reason = (text: string) =>
      connectionRefused(new URL(text), signal).then((error) => (error as NodeJS.ErrnoException).code)
    expect(await reason(`http://127.0.0.1:${await freePort()}`)).toBe('ECONNREFUSED')
    expect(await reason(`http://[::1]:${await freePort()}`)).toMatch(/ECONNREFUSED|EADDRNOTAVAIL/)
    expect(await reason('https://nowhere.invalid')).toMatch(/ENOTFOUND|EAI_AGAIN/)
    expect(await reason('unix:///nowhere/otel.sock')).toBe('ENOENT')
  })

  test('one that takes connections is there, and loses this one again', async () => {
    const server = createServer().listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const closed = once(server, 'connection').then(([socket]) =>
      once(socket.resume(), 'close', { signal: AbortSignal.timeout(10_000) }),
    )
    const away = connectionRefused(
      new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`),
      signal,
    )
    expect(await Promise.race([away, closed.then(() => 'there')])).toBe('there')
  })
})
