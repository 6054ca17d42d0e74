/**
 * Piscina task: a response of xDS to rules, off the main thread (spec 8.6).
 *
 *     DiscoveryResponse ── responseResources ── resource.ts ──► drafts ── load.ts ──► image
 *            └── cannot be decoded: not a word of it is a configuration, `isDecoded` is false
 */
import { responseResources } from '../../proto/discovery.ts'
import type { RuleDraft } from './draft.ts'
import { type Load, type LoadResult, load } from './load.ts'
import { type LoadJob, type LoadRemarks, remarksOn } from './load-job.ts'
import { type Count, readResource } from './resource.ts'

/** Plain data, so it can be posted. */
export interface ResponseTask {
  response: Uint8Array
  isMerging: boolean // MERGE_DOMAIN_CONFIG
}

export type ResponseResult = LoadResult & { isDecoded: boolean }

export default async function responseJob({ task, port }: LoadJob<ResponseTask>): Promise<LoadRemarks> {
  const loaded = await loadResponse(task)
  port.postMessage(loaded.result)
  return 'remark' in loaded ? remarksOn(loaded) : { remarks: [], content: '' }
}

type LoadedResponse = { result: ResponseResult } | (Load & { result: ResponseResult })

export async function loadResponse({ response, isMerging }: ResponseTask): Promise<LoadedResponse> {
  const drafts: RuleDraft[] = []
  const count: Count = { descriptors: 0 }
  try {
    for (const resource of responseResources(response)) drafts.push(readResource(resource, count))
  } catch (cause) {
    const error = `resource ${drafts.length + 1} cannot be decoded: ${(cause as Error).message}`
    return { result: { ok: false, error, isDecoded: false, warnings: [], seenCount: 0, failuresCount: 0 } }
  }
  const loaded = await load({ from: 'drafts', drafts, isMerging })
  return { ...loaded, result: { ...loaded.result, isDecoded: true } }
}
