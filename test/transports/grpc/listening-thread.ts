/** A thread that listens on the given socket, posts a message then, and throws when it receives one. */
import { parentPort, workerData } from 'node:worker_threads'
import { listen } from '../../../transports/grpc/listener.ts'

await listen({ path: workerData, onSocket: (socket) => socket.destroy() })
parentPort!.once('message', () => {
  throw new Error('a thread that throws')
})
parentPort!.postMessage('listening')
