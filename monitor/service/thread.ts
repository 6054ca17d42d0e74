/**
 * The monitor's thread, from start to drained. No socket library is loaded here: the caller passes `openPort`
 * (scripts/commands/monitor-thread.ts).
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { Log } from '../../engine/runtime/messages.ts'
import type { OpenPort } from '../api/sockets.ts'
import type { FromMonitor, MonitorTask, ToMonitor } from './messages.ts'
import { MonitorService } from './monitor-service.ts'

/** Resolves when the thread has drained. Rejects when it cannot start. */
export async function runMonitorThread(openPort: OpenPort): Promise<void> {
  const port = parentPort as MessagePort
  const send = (message: FromMonitor) => port.postMessage(message)
  const log: Log = (level, text, fields) => send({ kind: 'log', level, text, fields })
  const monitor = await MonitorService.open(workerData as MonitorTask, openPort, send, log)
  const timeoutMs = await new Promise<number>((resolve) => {
    port.on('message', (message: ToMonitor) => {
      if (message.kind === 'rules') monitor.setRules(message.rules)
      else if (message.kind === 'ending') monitor.beginShutdown()
      else resolve(message.timeoutMs)
    })
    send({ kind: 'ready', port: monitor.port })
  })
  await monitor.drain(timeoutMs)
  port.close()
}
