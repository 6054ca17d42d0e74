/** What a service can read of a call's headers and peer: registered names only, and no long values. */
import { Client, credentials, Metadata, type ServiceError } from '@grpc/grpc-js'
import { describe, expect, onTestFinished, test } from 'vitest'
import { type CallOrigin, HEADER_VALUE_MAX, type UnaryMethod } from '../../../transports/grpc/frontend.ts'
import { FRONTENDS, openPort } from './open-port.ts'

const PATH = '/test.Origin/Ask'
const same = (bytes: Buffer) => bytes

describe.each(Object.keys(FRONTENDS))('%s', (name) => {
  test('11.3: the registered headers, call by call', async () => {
    const origins: CallOrigin[] = []
    const method: UnaryMethod = {
      path: PATH,
      handle(_, call) {
        origins.push(call.origin())
        call.reply(Buffer.alloc(0))
      },
    }
    const { address } = await openPort(FRONTENDS[name], { methods: [method], headers: ['b3', 'tracestate'] })
    const client = new Client(address, credentials.createInsecure())
    onTestFinished(() => client.close())
    const longest = 'x'.repeat(HEADER_VALUE_MAX)
    const said: Record<string, string>[] = [
      {},
      { b3: '0', other: 'x' },
      { b3: '0', other: 'x' }, // the same header block again
      { tracestate: longest },
      { b3: `${longest}x`, tracestate: 'a=1' },
      {},
    ]
    for (const headers of said) await ask(client, headers)
    const heard = origins.map((origin) => [origin.header('b3'), origin.header('tracestate')])
    expect(heard).toEqual([
      ['', ''],
      ['0', ''],
      ['0', ''],
      ['', longest],
      ['', 'a=1'],
      ['', ''],
    ])
    if (name === 'http2') for (const origin of origins) expect(origin.header('other')).toBe('')
    for (const { peer } of origins) expect(peer).toMatch(/^127\.0\.0\.1:\d+$/)
  })
})

function ask(client: Client, headers: Record<string, string>): Promise<void> {
  const metadata = new Metadata()
  for (const [name, value] of Object.entries(headers)) metadata.set(name, value)
  return new Promise((resolve, reject) => {
    const done = (error: ServiceError | null) => (error ? reject(error) : resolve())
    client.makeUnaryRequest(PATH, same, same, Buffer.alloc(0), metadata, done)
  })
}
