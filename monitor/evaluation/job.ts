/** Piscina task: one pass over the database, on a thread that neither serves nor probes. Opens it read-only. */
import { Database } from '../storage/database.ts'
import type { Write } from '../storage/rows.ts'
import { evaluateAll, type PassOptions } from './pass.ts'

export interface EvaluationTask extends PassOptions {
  path: string // of the database
}

export default function evaluate({ path, ...options }: EvaluationTask): Write[] {
  const database = new Database(path, { isReadOnly: true })
  try {
    return evaluateAll(database, options)
  } finally {
    database.close()
  }
}
