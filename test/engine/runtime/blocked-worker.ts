/**
 * Runs in serve-pool.test.ts, in place of a worker of the service: responds to pings, ends on `drain`, and blocks on `stall` until
 * the test releases it.
 */
import type { FromWorker, ServeTask, ToWorker } from '../../../engine/runtime/messages.ts'

/** Words of `task.memoryTable`. */
export const RELEASED = 0

export default function serve({ port, memoryTable }: ServeTask): Promise<void> {
  const send = (message: FromWorker) => port.postMessage(message)
  return new Promise((resolve) => {
    port.on('message', ({ kind }: ToWorker) => {
      if (kind === 'ping') send({ kind: 'pong' })
      else if (kind === 'stall') Atomics.wait(new Int32Array(memoryTable!), RELEASED, 0)
      else if (kind === 'drain') {
        port.close()
        resolve()
      }
    })
    send({ kind: 'ready' })
  })
}
