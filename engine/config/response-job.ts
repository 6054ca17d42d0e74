/**
 * Piscina task: turns an xDS response into rules, off the main thread (spec 8.6).
 *
 *     DiscoveryResponse ── responseResources ── resource.ts ──► drafts ── load.ts ──► image
 *            └── a resource that cannot be decoded refuses the whole response: `isDecoded` is false
 */
import { createHash } from 'node:crypto'
import { responseResources } from '../../proto/discovery.ts'
import type { RuleDraft } from './draft.ts'
import { type Load, type LoadResult, load } from './load.ts'
import { type LintResult, type LoadJob, lintLoad } from './load-job.ts'
import { type Count, readResource } from './resource.ts'
import type { StoreErrorPolicy } from './rules.ts'

/** Plain data, so it can be posted. */
export interface ResponseTask {
  response: Uint8Array
  isMerging: boolean // MERGE_DOMAIN_CONFIG
  defaultPolicy?: StoreErrorPolicy // STORE_ERROR_POLICY, for lint warnings; default: unknown
}

export type ResponseResult = LoadResult & { isDecoded: boolean }

export default async function responseJob({ task, port }: LoadJob<ResponseTask>): Promise<LintResult> {
  const loaded = await loadResponse(task)
  port.postMessage(loaded.result)
  return 'lint' in loaded ? lintLoad(loaded) : { warnings: [], contentHash: '' }
}

type LoadedResponse = { result: ResponseResult } | (Load & { result: ResponseResult })

/** The content hash covers the resources only: version and nonce differ between responses with the same rules. */
export async function loadResponse({
  response,
  isMerging,
  defaultPolicy,
}: ResponseTask): Promise<LoadedResponse> {
  const drafts: RuleDraft[] = []
  const count: Count = { descriptors: 0 }
  const hash = createHash('sha256')
  try {
    for (const resource of responseResources(response)) {
      hash.update(`${resource.value.length} `).update(resource.value)
      drafts.push(readResource(resource, count))
    }
  } catch (cause) {
    const error = `resource ${drafts.length + 1} cannot be decoded: ${(cause as Error).message}`
    return { result: { ok: false, error, isDecoded: false, warnings: [], seenCount: 0, failuresCount: 0 } }
  }
  const loaded = await load({ from: 'drafts', drafts, isMerging, defaultPolicy })
  const contentHash = loaded.result.ok ? hash.digest('base64') : ''
  return { ...loaded, contentHash, result: { ...loaded.result, isDecoded: true } }
}
