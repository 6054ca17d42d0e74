/** The reader's thread: one question, one answer. Opened after the writer, which has made the file. */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import { answerInspections } from '../../engine/inspection/thread.ts'
import { Reader } from './reader.ts'

export interface ReaderQuestion {
  id: number
  method: string
  args: unknown[]
}
export interface ReaderAnswer {
  id: number
  value?: unknown
  error?: Error
}

const port = parentPort as MessagePort
const reader = new Reader(workerData.path)

answerInspections('monitor reader')
port.on('message', ({ id, method, args }: ReaderQuestion) => {
  if (method === 'close') {
    reader.close()
    port.close()
    return
  }
  let answer: ReaderAnswer
  try {
    const call = reader[method as 'history'] as (...args: unknown[]) => unknown
    answer = { id, value: call.apply(reader, args) }
  } catch (error) {
    answer = { id, error: error as Error }
  }
  port.postMessage(answer)
})
