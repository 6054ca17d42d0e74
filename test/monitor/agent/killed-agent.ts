/**
 * The process that agent-kill.test.ts kills: an agent as `sluice monitor agent` starts it.
 *
 *     AGENT_SERVER=… AGENT_TOKEN=… node killed-agent.ts <folder>
 *
 * Prints the number of waiting and of sent results every 20 ms, with writeSync: a stream would lose lines in a kill.
 */
import { writeSync } from 'node:fs'
import { agentAccess, startAgent } from '../../../monitor/agent/start.ts'
import { egressSettings } from '../../../monitor/egress/egress.ts'

const agent = startAgent({
  ...agentAccess(process.env),
  settings: {
    ...{ PROBE_CONCURRENCY: 4, PROBE_RETRIES: 0, PROBE_SLOW_MS: 3_000, CONNECTIVITY_CHECK_URLS: [] },
    MONITOR_DATA_DIR: process.argv[2],
  },
  egress: egressSettings(process.env),
  version: '1.0.0',
  log: (level, text) => console.error(level, text),
})
setInterval(() => {
  const { waiting, sent } = agent.metrics()
  writeSync(1, `${waiting} ${sent}\n`)
}, 20)
