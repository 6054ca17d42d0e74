import { VERSION } from '../../../engine/runtime/version.ts'
import { agentAccess, startAgent } from '../../../monitor/agent/start.ts'
import { egressSettings } from '../../../monitor/egress/egress.ts'
import { createLog } from '../log.ts'
import type { Command } from './command.ts'
import { createContext } from './context.ts'

export const agent: Command = {
  usage: `agent

Probes the sites of another monitor from this machine until a signal ends it. Needs no open port. Settings:

  AGENT_SERVER       URL of that monitor's AGENT_ADDR, such as https://monitor.example.org:8091
  AGENT_TOKEN        the token that \`sluice monitor vantage create\` printed there; or AGENT_TOKEN_FILE, a file with it
  MONITOR_DATA_DIR   folder of results that the server could not accept yet; kept for a day

PROBE_CONCURRENCY, PROBE_RETRIES, PROBE_SLOW_MS, CONNECTIVITY_CHECK_URLS, PROBE_PORTS, EGRESS_DENY and EGRESS_PROXY apply as in the monitor;
AGENT_SERVER is called without the proxy.
`,
  async run(_, io) {
    const { settings } = createContext(io)
    const log = createLog(settings.LOG_LEVEL, settings.LOG_FORMAT, io.openLog())
    const ended = new Promise<void>((resolve) => io.onSignal(() => resolve()))
    const egress = egressSettings(io.env)
    const running = startAgent({ ...agentAccess(io.env), settings, egress, version: VERSION, log })
    log('warning', `probing for ${settings.AGENT_SERVER}`)
    await ended
    await running.close()
    return 0
  },
}
