/**
 * Speaks HTTP/1.1 in bytes, since of an answer its bytes matter, too: what a library would repair or hide is seen here.
 */
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'

const HOST = '127.0.0.1'

export interface Answer {
  status: string // without the version, such as `200 OK`
  headers: Record<string, string> // lower case
  body: string
}

/** Reads one answer; `headOnly` for answers to HEAD, which announce a body and send none. */
export async function readResponse(socket: Socket, headOnly = false): Promise<Answer> {
  let text = ''
  for (;;) {
    const end = text.indexOf('\r\n\r\n')
    if (end >= 0) {
      const [status, ...lines] = text.slice(0, end).split('\r\n')
      const headers = Object.fromEntries(lines.map((line) => line.toLowerCase().split(': ')))
      const body = text.slice(end + 4)
      if (headOnly || Buffer.byteLength(body) >= Number(headers['content-length'] ?? 0)) {
        return { status: status.replace('HTTP/1.1 ', ''), headers, body }
      }
    }
    text += String((await once(socket, 'data'))[0])
  }
}

export class RawClient {
  private readonly port: number
  private readonly sockets: Socket[] = []

  constructor(port: number) {
    this.port = port
  }

  open(): Socket {
    const socket = connect(this.port, HOST)
    socket.on('error', () => {})
    this.sockets.push(socket)
    return socket
  }

  /** One request on a connection of its own; `line` is such as `POST /json`. */
  async send(line: string, body: string | Buffer = '', headers = ''): Promise<Answer> {
    const socket = this.open()
    const length = body.length > 0 ? `Content-Length: ${Buffer.byteLength(body)}\r\n` : ''
    const answered = readResponse(socket, line.startsWith('HEAD'))
    socket.write(`${line} HTTP/1.1\r\nHost: a\r\n${headers}${length}\r\n`)
    socket.write(body)
    return answered
  }

  /** Cuts every connection. */
  close(): void {
    for (const socket of this.sockets.splice(0)) socket.destroy()
  }
}
