/** Whether a port of 127.0.0.1 refuses new connections: nothing listens there any more. Existing connections may go on. */
import { once } from 'node:events'
import { connect } from 'node:net'

export async function isRefused(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  try {
    await once(socket, 'connect')
    return false
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ECONNREFUSED'
  } finally {
    socket.destroy()
  }
}
