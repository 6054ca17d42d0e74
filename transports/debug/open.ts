/**
 * Opens the debug port as the settings have it. Without it everything goes on: it is told, and that is all.
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
  port: number // as it was claimed; NO_PORT: it could not be
  log: Log
}

export function debugAddress({ DEBUG_HOST: host, DEBUG_PORT: port }: Settings, log: Log): Address {
  const onFailure = (error: Error) => failed(log, error)
  return { variable: 'DEBUG_PORT', host, port, onFailure }
}

/** Null: it cannot be had. */
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
    failed(log, error as Error)
    return null
  }
}

function failed(log: Log, { message }: Error): void {
  log('error', `Failed to open debug HTTP listener: '${message}'`)
}
