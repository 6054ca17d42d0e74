/**
 * Opens the debug port from the settings. A port that cannot be opened is logged; the service runs without it.
 */
import { hostname } from 'node:os'
import { handleInspections } from '../../engine/runtime/inspection/inspected-thread.ts'
import type { Log } from '../../engine/runtime/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import { type Address, NO_PORT } from '../ports.ts'
import { accessWarning, ownNames } from './access.ts'
import { type DebugOptions, DebugServer } from './server.ts'

export interface DebugPortOptions extends Omit<DebugOptions, 'host' | 'port' | 'token' | 'names'> {
  settings: Settings
  port: number // as claimed; NO_PORT if that failed
  log: Log
}

export function debugAddress({ DEBUG_HOST: host, DEBUG_PORT: port }: Settings, log: Log): Address {
  const onFailure = (error: Error) => logFailure(log, error)
  return { variable: 'DEBUG_PORT', host, port, onFailure }
}

/** Returns null if it cannot be opened. */
export function openDebugPort({ settings, port, log, ...options }: DebugPortOptions): DebugServer | null {
  const { DEBUG_HOST: host, DEBUG_TOKEN: token, DEBUG_ALLOWED_HOSTS: allowed } = settings
  if (port === NO_PORT) return null
  try {
    handleInspections('main')
    const names = ownNames(hostname(), host, ...allowed)
    const debug = new DebugServer({ ...options, host, port, token, names })
    log('warning', `Listening for debug on '${host}:${debug.port}'`)
    const warning = accessWarning(host, token)
    if (warning !== null) log('warning', warning)
    return debug
  } catch (error) {
    logFailure(log, error as Error)
    return null
  }
}

function logFailure(log: Log, { message }: Error): void {
  log('error', `Failed to open debug HTTP listener: '${message}'`)
}
