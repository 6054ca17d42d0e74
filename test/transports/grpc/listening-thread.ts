/** A thread that listens on the socket it is given, says so, and throws when spoken to. */
import { parentPort, workerData } from 'node:worker_threads'
import { listen } from '../../../transports/grpc/listener.ts'

await listen({ path: workerData, onSocket: (socket) => socket.destroy() })
parentPort!.once('message', () => {
  throw new Error('told to')
})
parentPort!.postMessage('listening')
