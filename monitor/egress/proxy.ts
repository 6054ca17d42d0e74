/**
 * The operator's proxy (EGRESS_PROXY, spec 5.8): a socket to a target by HTTP CONNECT, for http and https alike.
 *
 *     dial the proxy ─► CONNECT relay.example.com:443 ─► 2xx ─► a socket as if the target had been dialled
 *
 * The proxy receives the name, so it resolves and checks addresses; scheme, port, name and literal addresses are checked
 * before. Its failures must not count against the target where the two can be distinguished:
 *
 *     502, 503                  connect_unreachable   what proxies send for an unreachable target (Squid: 503)
 *     504, no response in time  connect_timeout
 *     403                       'forbidden'           a rule of the proxy, as for addresses that are not public
 *     anything else             failure of this host  407, not HTTP, cut off, proxy unreachable: no evidence about the target
 *
 * An overloaded proxy sends 503 or nothing too; CONNECTIVITY_CHECK_URLS go through it and detect that. Not available behind a
 * proxy: DNS time, addresses, network, CNAMEs and the limit of two probes per network.
 */
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import { sendConnect } from '../../engine/runtime/connect-tunnel.ts'
import type { ErrorCode } from '../facts.ts'
import { connected } from './connect.ts'
import { Failure, toFailure } from './failure.ts'
import type { ProxyServer } from './settings.ts'
import type { UrlTarget } from './url-policy.ts'

export interface TunnelOptions {
  headBytes: number // of the proxy's response
  signal: AbortSignal // for dialling and the response
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
  const socket = connect({ host, port }) // by getaddrinfo: the hosts file or the container network may define it
  try {
    await connected(socket, options.signal)
  } catch (error) {
    throw toOwnFailure(error)
  }
  const status = await sendRequest(socket, proxy, target, options)
  if (status >= 200 && status <= 299) return socket
  socket.destroy()
  if (status === 403) return 'forbidden'
  const fault = FAULTS_OF_TARGET[status]
  throw new Failure(fault ?? 'connect_unreachable', `proxy ${status}`, { isOurs: fault === undefined })
}

/** Returns the status of the proxy's response. */
async function sendRequest(
  socket: Socket,
  { authorization }: ProxyServer,
  { url, port }: Pick<UrlTarget, 'url' | 'port'>,
  { headBytes, signal }: TunnelOptions,
): Promise<number> {
  try {
    const authority = `${url.hostname}:${port}`
    return await sendConnect(socket, { authority, authorization, headBytesMax: headBytes, signal })
  } catch (error) {
    if (error instanceof Failure) throw error // the deadline: the proxy was still connecting to the target
    throw toOwnFailure(error)
  }
}

function toOwnFailure(error: unknown): Failure {
  const { code, detail } = toFailure('connect', error)
  return new Failure(code, `proxy ${detail}`, { isOurs: true })
}
