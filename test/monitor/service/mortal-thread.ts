/**
 * Runs in place of the monitor's thread in monitor-supervisor.test.ts: counts its lives and breaks on command.
 *
 *     memoryTable, three Int32:   LIVES       number of starts
 *                                 BREAKS_IN   the life with this number breaks when it reads it
 *                                 IS_UNFIT    1 = each life breaks before it is ready
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { FromMonitor, MonitorTask, ToMonitor } from '../../../monitor/service/messages.ts'

export const LIVES = 0
export const BREAKS_IN = 1
export const IS_UNFIT = 2
const POLL_MS = 5

if (parentPort !== null) live(parentPort, workerData as MonitorTask) // not when the test imports the constants

function live(port: MessagePort, { memoryTable, rules }: MonitorTask): void {
  const send = (message: FromMonitor) => port.postMessage(message)
  const logRules = (latest: MonitorTask['rules']) =>
    send({ kind: 'log', level: 'info', text: `life ${life} has ${latest?.domainsCount ?? 'no'} domain` })
  const control = new Int32Array(memoryTable!)
  const life = Atomics.add(control, LIVES, 1) + 1
  if (Atomics.load(control, IS_UNFIT) === 1) throw new Error(`life ${life} is unfit`)
  const polling = setInterval(() => {
    if (Atomics.load(control, BREAKS_IN) !== life) return
    send({ kind: 'log', level: 'info', text: `life ${life} breaks` })
    throw new Error(`life ${life} broke`)
  }, POLL_MS)
  port.on('message', (message: ToMonitor) => {
    if (message.kind === 'rules') logRules(message.rules)
    else if (message.kind === 'drain') {
      clearInterval(polling)
      port.close()
    } else send({ kind: 'log', level: 'info', text: `life ${life} is not ready any more` })
  })
  logRules(rules)
  send({ kind: 'ready', port: life })
}
