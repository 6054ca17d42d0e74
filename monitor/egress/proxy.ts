/**
 * The operator's own proxy (EGRESS_PROXY, spec 5.8): a socket to a target by HTTP CONNECT, for http and https alike.
 *
 *     dial the proxy ─► CONNECT relay.example.com:443 ─► 2xx ─► a socket, as if the target had been dialled
 *
 * It is given the name, so DNS and the judgement of addresses are its part; scheme, port, name and literal addresses were
 * judged before. How it fails must not read as the target's fault where it can be told apart:
 *
 *     502, 503                connect_unreachable   what proxies say of a target they cannot reach (Squid says 503)
 *     504, no answer in time  connect_timeout
 *     403                     'forbidden'           a rule of the proxy, as for addresses that are not public
 *     anything else           our own failure       407, not HTTP, cut off, nobody at home: says nothing about the target
 *
 * A proxy that is overloaded says 503 or nothing as well; CONNECTIVITY_CHECK_URLS go through it too and tell that.
 *
 * Gives up what only an address tells: time of DNS, addresses, network, CNAMEs, and the bound of two probes per network.
 */
import { once } from 'node:events'
import type { IncomingMessage } from 'node:http'
import { request as httpRequest } from 'node:http'
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import type { ErrorCode } from '../facts.ts'
import { connected } from './connect.ts'
import { Failure, toFailure } from './failure.ts'
import type { ProxyServer } from './settings.ts'
import type { UrlTarget } from './url-policy.ts'

export interface TunnelOptions {
  headBytes: number // of the proxy's answer
  signal: AbortSignal // ends the dialling and the answer alike
}

const FAULTS_OF_TARGET: Record<number, ErrorCode> = {
  502: 'connect_unreachable',
  503: 'connect_unreachable',
  504: 'connect_timeout',
}

export async function tunnel(
  proxy: ProxyServer,
  target: Pick<UrlTarget, 'url' | 'port'>,
  options: TunnelOptions,
): Promise<Socket | 'forbidden'> {
  const { host, port } = proxy
  const socket = connect({ host, port }) // by getaddrinfo: it may be known to the hosts file or the container network only
  try {
    await connected(socket, options.signal)
  } catch (error) {
    throw toOwnFailure(error)
  }
  const status = await ask(socket, proxy, target, options)
  if (status >= 200 && status <= 299) return socket
  socket.destroy()
  if (status === 403) return 'forbidden'
  const fault = FAULTS_OF_TARGET[status]
  throw new Failure(fault ?? 'connect_unreachable', `proxy ${status}`, { isOurs: fault === undefined })
}

/** The status of its answer. Node's parser reads it, and takes the first head of any status for the whole answer. */
async function ask(
  socket: Socket,
  { authorization }: ProxyServer,
  { url, port }: Pick<UrlTarget, 'url' | 'port'>,
  { headBytes, signal }: TunnelOptions,
): Promise<number> {
  const authority = `${url.hostname}:${port}`
  const abort = () => socket.destroy(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  if (signal.aborted) abort()
  try {
    const request = httpRequest({
      createConnection: () => socket,
      method: 'CONNECT',
      path: authority,
      headers: {
        host: authority,
        connection: 'keep-alive', // Node's `close` would speak of the tunnel to some proxies
        ...(authorization !== null && { 'proxy-authorization': authorization }),
      },
      maxHeaderSize: headBytes,
      insecureHTTPParser: false, // whatever this process was started with
    })
    request.on('error', () => {}) // stays; the first is thrown by `once`
    request.end()
    const [answer, , early]: [IncomingMessage, Socket, Buffer] = (await once(request, 'connect')) as never
    socket.unshift(early) // a target that speaks first
    return answer.statusCode as number
  } catch (error) {
    socket.destroy()
    if (error instanceof Failure) throw error // late: it was still trying to reach the target
    throw toOwnFailure(error)
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

function toOwnFailure(error: unknown): Failure {
  const { code, detail } = toFailure('connect', error)
  return new Failure(code, `proxy ${detail}`, { isOurs: true })
}
