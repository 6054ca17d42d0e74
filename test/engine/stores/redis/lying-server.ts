/** A server that answers as a test says, whatever it is asked: for replies that no Redis sends. */
import { type AddressInfo, createServer, type Socket } from 'node:net'
import { onTestFinished } from 'vitest'

export interface LyingServer {
  address: string
  port: number
  commands: string[][] // received, in their order
}

/** `reply` maps a command to the bytes of its reply. PING is answered unless `reply` does. Stops when the test ends. */
export async function startLyingServer(reply: (command: string[]) => string | null): Promise<LyingServer> {
  const commands: string[][] = []
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    let text = ''
    sockets.add(socket)
    socket.on('error', () => {})
    socket.on('data', (bytes) => {
      text += bytes.toString('latin1')
      for (let next = takeCommand(text); next !== null; next = takeCommand(text)) {
        text = next.rest
        commands.push(next.command)
        socket.write(reply(next.command) ?? '+PONG\r\n', 'latin1')
      }
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => {
    server.close()
    for (const socket of sockets) socket.destroy()
  })
  const { port } = server.address() as AddressInfo
  return { address: `127.0.0.1:${port}`, port, commands }
}

/** `*1\r\n$4\r\nPING\r\n` → PING; null = it has not arrived completely. Lengths are those of ASCII. */
function takeCommand(text: string): { command: string[]; rest: string } | null {
  const lines = text.split('\r\n')
  const count = Number(lines[0]?.slice(1))
  if (!text.startsWith('*') || lines.length <= 2 * count + 1) return null
  const command = Array.from({ length: count }, (_, i) => lines[2 * i + 2])
  return { command, rest: lines.slice(2 * count + 1).join('\r\n') }
}

export function bulk(text: string): string {
  return `$${Buffer.byteLength(text)}\r\n${text}\r\n`
}

export function bulks(...texts: string[]): string {
  return `*${texts.length}\r\n${texts.map(bulk).join('')}`
}
