/**
 * One connection that sends `POST /json` requests without waiting for responses in between.
 *
 *     ──► request request request …      at most DEPTH of them in flight
 *     ◄── response response              in the order of the requests
 */
import { connect, type Socket } from 'node:net'

const DEPTH = 16

export interface Exchange {
  body: Buffer
  status: number
  response: string
}

/** Sends `count` requests and passes on every exchange. Rejects when the connection ends early. */
export function sendPipelined(
  port: number,
  count: number,
  nextBody: () => Buffer,
  onExchange: (exchange: Exchange) => void,
): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket = connect(port, '127.0.0.1')
    const waiting: Buffer[] = []
    let unread = ''
    let leftCount = count
    const send = () => {
      while (waiting.length < DEPTH && leftCount > 0) {
        leftCount--
        const body = nextBody()
        waiting.push(body)
        writeRequest(socket, body)
      }
    }
    socket.setNoDelay(true).setEncoding('latin1') // a character per byte, so that lengths count bytes
    socket.once('connect', send)
    socket.on('error', reject)
    socket.on('close', () => reject(new Error(`the connection ended; last body: ${waiting[0]}`)))
    socket.on('data', (text) => {
      try {
        unread = readResponses(unread + text, waiting, onExchange)
      } catch (error) {
        reject(error)
        socket.destroy()
      }
      send()
      if (waiting.length > 0) return
      resolve()
      socket.destroy()
    })
  })
}

function writeRequest(socket: Socket, body: Buffer): void {
  socket.cork()
  socket.write(`POST /json HTTP/1.1\r\nHost: a\r\nContent-Length: ${body.length}\r\n\r\n`)
  socket.write(body)
  socket.uncork()
}

/** Takes whole responses from the text and returns the rest. */
function readResponses(text: string, waiting: Buffer[], onExchange: (exchange: Exchange) => void): string {
  let start = 0
  for (;;) {
    const end = text.indexOf('\r\n\r\n', start)
    if (end < 0) return text.slice(start)
    const header = text.slice(start, end)
    const length = Number(/\r\nContent-Length: (\d+)/i.exec(header)?.[1] ?? 0)
    if (text.length < end + 4 + length) return text.slice(start)
    const response = Buffer.from(text.slice(end + 4, end + 4 + length), 'latin1').toString()
    onExchange({ body: waiting.shift()!, status: Number(header.slice(9, 12)), response })
    start = end + 4 + length
  }
}
