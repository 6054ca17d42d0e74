import { once } from 'node:events'
import { connect, createServer, type Socket } from 'node:net'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { countConnectionsTo } from './connections.ts'

test.runIf(process.platform === 'linux')(
  'connections of a process to a port, while they are open',
  async () => {
    const server = createServer((socket) => socket.on('error', () => {}).resume())
    server.listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const { port } = server.address() as { port: number }
    expect(countConnectionsTo(process.pid, port)).toBe(0)
    const sockets: Socket[] = [connect(port, '127.0.0.1'), connect(port, '127.0.0.1')]
    await Promise.all(sockets.map((socket) => once(socket, 'connect')))
    expect(countConnectionsTo(process.pid, port)).toBe(2)
    sockets[0].destroy()
    await eventually(() => expect(countConnectionsTo(process.pid, port)).toBe(1))
    sockets[1].destroy()
  },
)
