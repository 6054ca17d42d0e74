/** Where the database is: one file in MONITOR_DATA_DIR, for the monitor and for every command beside it. */
import { join } from 'node:path'

export function databasePath(dataDir: string): string {
  return join(dataDir, 'monitor.sqlite')
}
