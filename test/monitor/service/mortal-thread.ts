/**
 * What monitor-supervisor.test.ts runs instead of the monitor's thread: it counts its lives, and breaks when it is told to.
 *
 *     memoryTable, three Int32:   LIVES       how often it began; each life adds one
 *                                 BREAKS_IN   the life with this number breaks as soon as it sees it
 *                                 IS_UNFIT    1 = each life breaks before it is ready
 */
import { type MessagePort, parentPort, workerData } from 'node:worker_threads'
import type { FromMonitor, MonitorTask, ToMonitor } from '../../../monitor/service/messages.ts'

export const LIVES = 0
export const BREAKS_IN = 1
export const IS_UNFIT = 2
const LOOK_MS = 5

if (parentPort !== null) live(parentPort, workerData as MonitorTask) // not where the test reads the names

function live(port: MessagePort, { memoryTable, rules }: MonitorTask): void {
  const say = (message: FromMonitor) => port.postMessage(message)
  const words = new Int32Array(memoryTable!)
  const life = Atomics.add(words, LIVES, 1) + 1
  if (Atomics.load(words, IS_UNFIT) === 1) throw new Error(`life ${life} is unfit`)
  const looking = setInterval(() => {
    if (Atomics.load(words, BREAKS_IN) !== life) return
    say({ kind: 'log', level: 'info', text: `life ${life} breaks` })
    throw new Error(`life ${life} broke`)
  }, LOOK_MS)
  port.on('message', (message: ToMonitor) => {
    if (message.kind === 'rules') tellRules(message.rules)
    else if (message.kind === 'drain') {
      clearInterval(looking)
      port.close()
    } else say({ kind: 'log', level: 'info', text: `life ${life} is not ready any more` })
  })
  tellRules(rules)
  say({ kind: 'ready', port: life })

  function tellRules(given: MonitorTask['rules']): void {
    say({ kind: 'log', level: 'info', text: `life ${life} has ${given?.domainsCount ?? 'no'} domain` })
  }
}
