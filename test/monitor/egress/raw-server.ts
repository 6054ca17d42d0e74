/**
 * A relay that is as rude as the test wants: what it does is chosen by the path of the request, and it writes bytes, not
 * messages. With `tls` the same behind a handshake. And the tripwire, that must see nobody.
 */
import type { AddressInfo, Server, Socket } from 'node:net'
import { createServer } from 'node:net'
import type { TlsOptions } from 'node:tls'
import { createServer as createTlsServer } from 'node:tls'

/** Answers one request; gets the whole request head. */
export type Responder = (socket: Socket, request: string) => void

export interface RawServer {
  port: number
  connections: number
  open: number // of them, now
  requests: string[] // whole heads
  on(path: string, respond: Responder): void // without the query
  close(): Promise<void>
}

export async function startRaw(host: string, port = 0, tls?: TlsOptions): Promise<RawServer> {
  const responders = new Map<string, Responder>()
  const sockets = new Set<Socket>()
  const raw: RawServer = {
    port,
    connections: 0,
    open: 0,
    requests: [],
    on: (path, respond) => responders.set(path, respond),
    close: () => {
      for (const socket of sockets) socket.destroy()
      return new Promise((resolve) => server.close(() => resolve()))
    },
  }
  const serve = (socket: Socket) => {
    let text = ''
    socket.on('error', () => {})
    socket.on('data', (chunk) => {
      text += chunk.toString('latin1')
      for (let end = text.indexOf('\r\n\r\n'); end >= 0; end = text.indexOf('\r\n\r\n')) {
        const request = text.slice(0, end)
        text = text.slice(end + 4)
        raw.requests.push(request)
        const path = request.split(' ')[1].split('?')[0]
        const respond = responders.get(path) ?? reply('HTTP/1.1 404 Not Found\r\ncontent-length: 0\r\n\r\n')
        respond(socket, request)
      }
    })
  }
  const server: Server = tls ? createTlsServer(tls, serve) : createServer(serve)
  server.on('connection', (socket: Socket) => {
    raw.connections++
    raw.open++
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('close', () => {
      sockets.delete(socket)
      raw.open--
    })
  })
  server.on('tlsClientError', () => {})
  await listen(server, host, port)
  raw.port = (server.address() as AddressInfo).port
  return raw
}

export function listen(server: Server, host: string, port: number): Promise<void> {
  return new Promise((resolve, reject) => {
    server.once('error', reject)
    server.listen(port, host, resolve)
  })
}

export const reply =
  (text: string | Buffer): Responder =>
  (socket) => {
    socket.write(text)
  }

/** 200 with a body of a known length; further head lines end in CRLF. */
export const ok = (body: string | Buffer, lines = ''): Responder => {
  const head = `HTTP/1.1 200 OK\r\ncontent-length: ${Buffer.byteLength(body)}\r\n${lines}\r\n`
  return reply(Buffer.concat([Buffer.from(head), Buffer.from(body)]))
}

export const redirect = (location: string, status = 302): Responder =>
  reply(`HTTP/1.1 ${status} Found\r\nlocation: ${location}\r\ncontent-length: 0\r\n\r\n`)
