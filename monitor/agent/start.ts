/**
 * What `sluice monitor agent` runs: the environment becomes an agent at work.
 *
 *     AGENT_SERVER                    https://monitor.example.org:8091; http only where nobody listens in
 *     AGENT_TOKEN, AGENT_TOKEN_FILE   one of the two: what `monitor vantage create` has shown
 *     MONITOR_DATA_DIR                agent-<…>.sqlite in it, one per server: another server has other sites
 *
 *     const agent = startAgent({ ...agentAccess(process.env), settings, egress: egressSettings(process.env), … })
 *     await agent.close()
 *
 * Everything runs on the one thread: an agent serves nobody who would have to wait.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import { AgentClient } from '../egress/agent-client.ts'
import { Egress, type EgressOptions } from '../egress/egress.ts'
import { NO_ASN_TABLE } from '../probe/asn.ts'
import { Agent } from './agent.ts'
import { ResultBuffer } from './buffer.ts'

export interface AgentAccess {
  server: string
  token: string
}

export interface StartOptions extends AgentAccess {
  settings: Pick<
    Settings,
    'PROBE_CONCURRENCY' | 'PROBE_RETRIES' | 'PROBE_SLOW_MS' | 'CONNECTIVITY_CHECK_URLS' | 'MONITOR_DATA_DIR'
  >
  egress: EgressOptions['settings']
  version: string
  log: Log
  ca?: string // PEM, of a server whose certificate is the operator's own
}

/** Throws OperatorError. */
export function agentAccess(env: Readonly<Record<string, string | undefined>>): AgentAccess {
  const { AGENT_SERVER: server = '', AGENT_TOKEN: token = '', AGENT_TOKEN_FILE: path = '' } = env
  if ((token === '') === (path === '')) {
    const fix = 'Set one of AGENT_TOKEN and AGENT_TOKEN_FILE to what `monitor vantage create` has shown.'
    throw complaint('AGENT_TOKEN', token === '' ? 'is missing.' : 'is given twice.', fix)
  }
  if (token !== '') return { server, token }
  try {
    return { server, token: readFileSync(path, 'utf8').trim() }
  } catch (error) {
    const what = `cannot be read: ${(error as Error).message}.`
    throw complaint('AGENT_TOKEN_FILE', what, 'Check the path and its rights.', error)
  }
}

/** Throws OperatorError. */
export function startAgent({ server, token, settings, egress, version, log, ca }: StartOptions): Agent {
  const home = new AgentClient({ server, token, version, ca })
  if (home.base.protocol === 'http:')
    log('warning', `${home.base.host} is asked over plain http: whoever listens in has the token`)
  const file = `agent-${createHash('sha256').update(home.base.href).digest('hex').slice(0, 12)}.sqlite`
  const out = new Egress({ settings: egress, version })
  const agent = new Agent({
    client: home,
    buffer: new ResultBuffer({ path: join(settings.MONITOR_DATA_DIR, file), log }),
    probing: {
      context: { egress: out, asn: NO_ASN_TABLE, nowMs: Date.now, slowMs: settings.PROBE_SLOW_MS },
      egress: out,
      lightMax: settings.PROBE_CONCURRENCY,
      repeatsMax: settings.PROBE_RETRIES,
      controlUrls: settings.CONNECTIVITY_CHECK_URLS,
    },
    nowMs: Date.now,
    log,
  })
  agent.start()
  return agent
}

function complaint(where: string, what: string, fix: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError({ code: 'AGENT_SETTING', where, what, fix, exitCode: 2 }, { cause })
}
