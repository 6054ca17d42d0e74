/** A TCP port of 127.0.0.1 that was free a moment ago. Ask right before use: nothing keeps it free. */
import { createServer } from 'node:net'

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', reject)
    server.listen(0, '127.0.0.1', () => {
      const address = server.address()
      if (address === null || typeof address === 'string') throw new Error('a TCP server has a port')
      server.close(() => resolve(address.port))
    })
  })
}
