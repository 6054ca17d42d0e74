/**
 * HTTP/1.1 CONNECT over a socket that is connected to a proxy.
 *
 *     ──► CONNECT relay.example.com:443 HTTP/1.1
 *     ◄── HTTP/1.1 200 Connection established          then the socket leads to the target
 *
 * Node's parser takes the first response head, whatever its status, as the whole response.
 */
import { once } from 'node:events'
import { type IncomingMessage, request } from 'node:http'
import type { Socket } from 'node:net'

export interface ConnectRequest {
  authority: string // host:port of the target
  authorization: string | null // Proxy-Authorization
  headBytesMax: number // of the response
  signal: AbortSignal // for the response
}

/**
 * Returns the status of the response; bytes of the target in the same packet stay in the socket. Rejects with the reason of
 * the signal, or with the error of the socket or the parser, and destroys the socket.
 */
export async function sendConnect(socket: Socket, options: ConnectRequest): Promise<number> {
  const { authority, authorization, headBytesMax, signal } = options
  const abort = () => socket.destroy(signal.reason)
  signal.addEventListener('abort', abort, { once: true })
  try {
    signal.throwIfAborted()
    const connecting = request({
      createConnection: () => socket,
      method: 'CONNECT',
      path: authority,
      headers: {
        host: authority,
        connection: 'keep-alive', // some proxies would apply Node's `close` to the tunnel
        ...(authorization !== null && { 'proxy-authorization': authorization }),
      },
      maxHeaderSize: headBytesMax,
      insecureHTTPParser: false, // overrides the flag of the process
    })
    connecting.on('error', () => {}) // stays attached; `once` throws the first error
    connecting.end()
    const [response, , early]: [IncomingMessage, Socket, Buffer] = (await once(
      connecting,
      'connect',
    )) as never
    socket.unshift(early)
    return response.statusCode as number
  } catch (error) {
    socket.destroy()
    throw error
  } finally {
    signal.removeEventListener('abort', abort)
  }
}
