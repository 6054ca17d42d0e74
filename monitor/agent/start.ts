/**
 * Starts an agent from the environment, for `sluice monitor agent`.
 *
 *     AGENT_SERVER                    https://monitor.example.org:8091; http only on a trusted network
 *     AGENT_TOKEN, AGENT_TOKEN_FILE   one of the two: the token that `monitor vantage create` printed
 *     MONITOR_DATA_DIR                holds agent-<…>.sqlite, one file per server
 *
 *     const agent = startAgent({ ...agentAccess(process.env), settings, egress: egressSettings(process.env), … })
 *     await agent.close()
 *
 * Everything runs on one thread: an agent serves no requests that probes could delay.
 */
import { createHash } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import { AgentClient } from '../egress/agent-client.ts'
import { Egress, type EgressOptions } from '../egress/egress.ts'
import { NO_ASN_TABLE } from '../probe/asn.ts'
import type { Settings } from '../settings.ts'
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
  ca?: string // PEM, for a server with a private CA
}

/** Throws ConfigurationError. */
export function agentAccess(env: Readonly<Record<string, string | undefined>>): AgentAccess {
  const { AGENT_SERVER: server = '', AGENT_TOKEN: token = '', AGENT_TOKEN_FILE: path = '' } = env
  if ((token === '') === (path === '')) {
    const fix =
      'Set one of AGENT_TOKEN and AGENT_TOKEN_FILE to the token that `monitor vantage create` printed.'
    throw settingError('AGENT_TOKEN', token === '' ? 'is missing.' : 'is given twice.', fix)
  }
  if (token !== '') return { server, token }
  try {
    return { server, token: readFileSync(path, 'utf8').trim() }
  } catch (error) {
    const what = `cannot be read: ${(error as Error).message}.`
    throw settingError('AGENT_TOKEN_FILE', what, 'Check the path and its permissions.', error)
  }
}

/** Throws ConfigurationError. */
export function startAgent({ server, token, settings, egress, version, log, ca }: StartOptions): Agent {
  const client = new AgentClient({ server, token, version, ca })
  if (client.base.protocol === 'http:')
    log(
      'warning',
      `${client.base.host} is polled over plain http: anyone on the network path can read the token`,
    )
  const file = `agent-${createHash('sha256').update(client.base.href).digest('hex').slice(0, 12)}.sqlite`
  const out = new Egress({ settings: egress, version })
  const agent = new Agent({
    client,
    buffer: new ResultBuffer({ path: join(settings.MONITOR_DATA_DIR, file), log }),
    probing: {
      context: { egress: out, asn: NO_ASN_TABLE, nowMs: Date.now, slowMs: settings.PROBE_SLOW_MS },
      egress: out,
      lightMax: settings.PROBE_CONCURRENCY,
      repeatsMax: settings.PROBE_RETRIES,
      connectivityUrls: settings.CONNECTIVITY_CHECK_URLS,
    },
    nowMs: Date.now,
    log,
  })
  agent.start()
  return agent
}

function settingError(where: string, what: string, fix: string, cause?: unknown): ConfigurationError {
  return new ConfigurationError({ code: 'AGENT_SETTING', where, what, fix, exitCode: 2 }, { cause })
}
