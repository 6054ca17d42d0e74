/**
 * A way through an HTTP proxy: CONNECT over a connection to it, which then is one to the management server.
 *
 *     CONNECT xds.example:18000 HTTP/1.1
 *     Host: xds.example:18000                        ◄── HTTP/1.1 200   all that follows is the server's
 *     Proxy-Authorization: Basic …                   ◄── anything else  refused
 */
import { request } from 'node:http'
import type { Socket } from 'node:net'

export interface Tunnel {
  to: string // host:port of the management server
  authorization: string // '' = none
}

/** Rejects when the proxy does not want to. */
export function throughProxy(socket: Socket, { to, authorization }: Tunnel): Promise<void> {
  const headers = {
    host: to,
    connection: 'keep-alive', // Node would write `close`
    ...(authorization !== '' && { 'proxy-authorization': authorization }),
  }
  return new Promise((resolve, reject) => {
    const asking = request({ method: 'CONNECT', path: to, headers, createConnection: () => socket })
    asking.once('connect', ({ statusCode }, _socket, early: Buffer) => {
      if (statusCode !== 200) {
        reject(refused(statusCode!))
        socket.destroy()
        return
      }
      if (early.length > 0) socket.unshift(early) // what the server said at once
      resolve()
    })
    asking.on('error', reject)
    asking.end()
  })
}

function refused(statusCode: number): Error {
  return new Error(`the proxy answers CONNECT with ${statusCode}`)
}
