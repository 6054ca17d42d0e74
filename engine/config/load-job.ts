/**
 * Piscina task: loads rules off the main and worker threads. 100,000 rules take one to two seconds of parsing and hundreds
 * of MB of heap, which are freed when the job thread ends.
 *
 *     { task, port } ──► load ──► the result is posted to the port ──► lint warnings are the result of the task
 */
import type { MessagePort } from 'node:worker_threads'
import { type Load, load, type RuleSource } from './load.ts'

export interface LoadJob<Task> {
  task: Task
  port: MessagePort // receives the LoadResult
}

/** What the job returns after the rules have been posted. */
export interface LintResult {
  warnings: string[] // empty after a failed load: its error is enough
  contentHash: string // as in Load
}

export default async function loadJob({ task, port }: LoadJob<RuleSource>): Promise<LintResult> {
  const loaded = await load(task)
  port.postMessage(loaded.result)
  return lintLoad(loaded)
}

export async function lintLoad({ result, lint, contentHash }: Load): Promise<LintResult> {
  return { warnings: result.ok ? await lint() : [], contentHash }
}
