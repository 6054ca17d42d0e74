/**
 * A port of 127.0.0.1 with TLS and any frontend behind it, as a worker has it, and clients for it. All end with the test.
 *
 *     const certificates = useCertificates()        // made once for a test file
 *     const { port, refused } = await openTlsPort(make, { tls: portTls({ pair: certificates.ours }) })
 */
import { readFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { type ConnectionOptions, type TLSSocket, connect as tlsConnect } from 'node:tls'
import { Client, credentials, status } from '@grpc/grpc-js'
import { afterAll, beforeAll, onTestFinished } from 'vitest'
import type { PortTls } from '../../../engine/runtime/messages.ts'
import { decodeResponse, encodeRequest } from '../../../proto/codec.ts'
import type { GrpcFrontendOptions } from '../../../transports/grpc/frontend.ts'
import { listen } from '../../../transports/grpc/listener.ts'
import { createUnaryMethods, SHOULD_RATE_LIMIT } from '../../../transports/grpc/services.ts'
import { TlsAcceptor, type TlsAcceptorOptions } from '../../../transports/grpc/tls-acceptor.ts'
import { type Certificates, makeCertificates, type Pair } from '../../helpers/certificates.ts'
import { question } from '../../helpers/grpc.ts'
import { FakeRateLimiter } from '../fake-rate-limiter.ts'
import { type FRONTENDS, unary } from './open-port.ts'

export const HOST = '127.0.0.1'
export const text = (path: string) => readFileSync(path, 'utf8')

/** Filled before the first test of the file. */
export const made = {} as {
  ours: Certificates
  foreign: Certificates // of an authority nobody here knows
  proxy: Pair // a client's
  renewed: Pair // another one of the server
}

export function useCertificates(): void {
  beforeAll(async () => {
    const names = 'DNS:localhost,IP:127.0.0.1'
    ;[made.ours, made.foreign] = await Promise.all([
      makeCertificates(names),
      makeCertificates('DNS:proxy.test'),
    ])
    made.proxy = await made.ours.issue('proxy', {
      names: 'DNS:proxy.test,DNS:*.wild.test,IP:192.0.2.7,IP:2001:db8::7',
    })
    made.renewed = await made.ours.issue('renewed', { names })
  })
  afterAll(async () => {
    await Promise.all([made.ours.remove(), made.foreign.remove()])
  })
}

/** TLS as main passes it to a worker. */
export function portTls({ pair = made.ours as Pair, clientCa = '', clientSan = '' } = {}): PortTls {
  const roots = clientCa === '' ? null : [text(clientCa)]
  return { cert: text(pair.cert), key: text(pair.key), clientCa: roots, clientSan }
}

export interface TlsPortOptions extends Partial<GrpcFrontendOptions> {
  tls?: PortTls
  door?: Partial<TlsAcceptorOptions>
  connectionsMax?: number
  path?: string
}

export async function openTlsPort(make: (typeof FRONTENDS)[string], options: TlsPortOptions = {}) {
  const { tls = portTls(), door: doorOptions, connectionsMax, path, ...frontendOptions } = options
  const limiter = new FakeRateLimiter()
  const frontend = make({ methods: createUnaryMethods(limiter, () => {}), ...frontendOptions })
  const refused: string[] = []
  const sockets: Socket[] = []
  const drops: string[] = []
  const door = new TlsAcceptor(tls, {
    onSocket(socket) {
      sockets.push(socket)
      frontend.accept(socket)
    },
    onRefused: (level, why) => refused.push(`${level} ${why}`),
    ...doorOptions,
  })
  const listener = await listen({
    ...(path === undefined ? { host: HOST, port: 0 } : { path }),
    onSocket: (socket) => door.accept(socket),
    onDrop: (why) => drops.push(why),
    ...(connectionsMax && { connectionsMax }),
  })
  onTestFinished(() => {
    listener.stop()
    door.close()
    frontend.close()
  })
  return { port: listener.port, door, limiter, frontend, refused, sockets, drops }
}

/** grpc-js's client, which trusts the server's CA and may have a certificate. */
export function tlsClient(
  address: string | number,
  { ca = made.ours.ca, pair }: { ca?: string; pair?: Pair } = {},
): Client {
  const own = pair && ([readFileSync(pair.key), readFileSync(pair.cert)] as const)
  const roots = readFileSync(ca)
  const secrets = own ? credentials.createSsl(roots, ...own) : credentials.createSsl(roots)
  const client = new Client(typeof address === 'number' ? `${HOST}:${address}` : address, secrets, {
    'grpc.enable_retries': 0,
    'grpc.use_local_subchannel_pool': 1,
    'grpc.ssl_target_name_override': 'localhost',
  })
  onTestFinished(() => client.close())
  return client
}

export async function ask(client: Client, domain = 'answer') {
  const request = encodeRequest(question(domain, { user: '7' }))
  return decodeResponse(await unary(client, SHOULD_RATE_LIMIT, request))
}

/** How the call ends. */
export function getStatusCode(client: Client): Promise<status> {
  return ask(client).then(
    () => status.OK,
    (error) => error.code,
  )
}

/** A bare TLS connection that offers h2. Ends with the test. */
export function tlsSocket(port: number, options: ConnectionOptions = {}): TLSSocket {
  const socket = tlsConnect({
    host: HOST,
    port,
    ca: text(made.ours.ca),
    servername: 'localhost',
    ALPNProtocols: ['h2'],
    ...options,
  })
  socket.on('error', () => {})
  onTestFinished(() => {
    socket.destroy()
  })
  return socket.resume()
}

/** Whatever ends it. */
export function closed(socket: Socket): Promise<void> {
  socket.on('error', () => {}).resume()
  return new Promise((resolve) => (socket.closed ? resolve() : socket.once('close', () => resolve())))
}
