/**
 * Where the rules come from: one of two sources that are the same to everybody else.
 *
 *     CONFIG_TYPE   FILE ──────────► engine/config/file-rules-source.ts    a directory is watched
 *                   GRPC_XDS_SOTW ─► xds/source.ts             a management server tells
 *
 * What brings a gRPC client along is loaded only when asked for: 60 ms of a start.
 */

import { FileRulesSource } from '../engine/config/file-rules-source.ts'
import type { RulesSource, RulesSourceOptions } from '../engine/config/rules-loader.ts'

/** Not started yet. Rejects with OperatorError for files or headers that cannot be used. */
export async function rulesSource(options: RulesSourceOptions): Promise<RulesSource> {
  if (options.settings.CONFIG_TYPE === 'FILE') return new FileRulesSource(options)
  const { XdsRulesSource } = await import('./xds/source.ts')
  return new XdsRulesSource(options)
}
