/**
 * The source of rules, as CONFIG_TYPE selects it; both have the same interface.
 *
 *     FILE ──────────► engine/config/file-rules-source.ts    watches a directory
 *     GRPC_XDS_SOTW ─► xds/source.ts                         follows a management server
 *
 * The second loads a gRPC client, which takes 60 ms, and only if selected.
 */

import { FileRulesSource } from '../engine/config/file-rules-source.ts'
import type { RulesSource, RulesSourceOptions } from '../engine/config/rules-loader.ts'

/** Returns a source that is not started. Rejects with ConfigurationError for files or headers that cannot be used. */
export async function rulesSource(options: RulesSourceOptions): Promise<RulesSource> {
  if (options.settings.CONFIG_TYPE === 'FILE') return new FileRulesSource(options)
  const { XdsRulesSource } = await import('./xds/source.ts')
  return new XdsRulesSource(options)
}
