/**
 * Piscina task: loads rules off the main thread and off the serving ones. 100,000 rules are a second or two of parsing
 * and hundreds of MB of heap, which go when the job's thread goes.
 *
 *     { task, port } ──► load ──► result through the port ──► remarks on it are the result of the task
 */
import type { MessagePort } from 'node:worker_threads'
import { type Load, load, type RuleSource } from './load.ts'

export interface LoadJob<Task> {
  task: Task
  port: MessagePort // gets the LoadResult
}

/** What is left to tell when the rules are in force. */
export interface LoadRemarks {
  remarks: string[] // empty for a failed load: the error says enough
  content: string // as in Load
}

export default async function loadJob({ task, port }: LoadJob<RuleSource>): Promise<LoadRemarks> {
  const loaded = await load(task)
  port.postMessage(loaded.result)
  return remarksOn(loaded)
}

export async function remarksOn({ result, remark, content }: Load): Promise<LoadRemarks> {
  return { remarks: result.ok ? await remark() : [], content }
}
