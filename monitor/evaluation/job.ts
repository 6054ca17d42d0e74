/** Piscina task: one pass over the file, off every thread that answers or probes. It can only read. */
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
