/** The reader's thread: one response per request. Started after the writer, which creates the file. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { handleInspections } from '../../engine/runtime/inspection/inspected-thread.ts'
import { Reader } from './reader.ts'

export interface ReaderRequest {
  id: number
  method: string
  args: unknown[]
}
export interface ReaderResponse {
  id: number
  value?: unknown
  error?: Error
}

const port = parentPort as MessagePort
const reader = new Reader(workerData.path)

handleInspections('monitor reader')
port.on('message', ({ id, method, args }: ReaderRequest) => {
  if (method === 'close') {
    reader.close()
    port.close()
    return
  }
  let response: ReaderResponse
  try {
    const call = reader[method as 'history'] as (...args: unknown[]) => unknown
    response = { id, value: call.apply(reader, args) }
  } catch (error) {
    response = { id, error: error as Error }
  }
  port.postMessage(response)
})
