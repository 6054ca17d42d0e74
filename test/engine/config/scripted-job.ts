/** A job for RulesLoader that follows its task: posts the result, then returns or throws. */
import type { LoadResult } from '../../../engine/config/load.ts'
import type { LintResult, LoadJob } from '../../../engine/config/load-job.ts'

export interface Script {
  result: LoadResult | null // null = the job fails before it has one
  lint: LintResult | { error: string }
}

export default async function scriptedJob({ task, port }: LoadJob<Script>): Promise<LintResult> {
  if (task.result) port.postMessage(task.result)
  if ('error' in task.lint) throw new Error(task.lint.error)
  return task.lint
}
