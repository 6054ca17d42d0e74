/**
 * The whole way from a source to an image that every thread can use.
 *
 *     tree ──► files ──► drafts (all files' syntax and keys) ──► domains (all files' meaning) ──► image
 *     xDS ─────────────────┘
 *
 * So an error of syntax in any file is told before an error of meaning in any other (spec 1.2). The first error ends the
 * load: the caller gets an image of everything or none at all.
 */
import { compile } from '../match/compile.ts'
import type { RulesImage } from '../rules.ts'
import type { RuleDraft } from './draft.ts'
import { ConfigError } from './error.ts'
import type { FilesRead, RuleFile, RuleTree } from './files.ts'
import { isRuleName, readRuleFiles } from './files.ts'
import { Remarks } from './remarks.ts'
import { readSettledFiles } from './settled.ts'
import { validate } from './validate.ts'

const SKIPPED = 'skipped a file that is not named .yaml or .yml'

/** Plain data, so it can be posted to a job. */
export type RuleSource = (
  | { from: 'tree'; tree: RuleTree; isSettling?: boolean } // settling: others may be writing to it (settled.ts)
  | { from: 'files'; files: RuleFile[] } // in load order
  | { from: 'drafts'; drafts: RuleDraft[] } // xDS resources in the order of the response
) & {
  isMerging: boolean // MERGE_DOMAIN_CONFIG
  isRemarking?: boolean // check-config: also tell what loads and still cannot be meant
}

export interface LoadNotes {
  warnings: string[]
  seenCount: number // files that were read: `runtime.num_values`
  failuresCount: number // files and directories that could not be read: `runtime.load_failures`
  remarks: string[] // `<file>: line <n>: <text>`; of an unfinished load those made so far
}

/** Plain data, so it can be posted; the image's memory is shared and not copied. */
export type LoadResult = LoadNotes &
  ({ ok: true; image: RulesImage; filesCount: number } | { ok: false; error: string })

/** Loads all rules of a source. A mistake in them is an answer (`ok: false`), not a rejection. */
export async function loadRules(source: RuleSource): Promise<LoadResult> {
  const notes: LoadNotes = { warnings: [], seenCount: 0, failuresCount: 0, remarks: [] }
  const remarks = source.isRemarking ? new Remarks() : null
  try {
    const drafts = source.from === 'drafts' ? source.drafts : await readDrafts(source, notes, remarks)
    const domains = validate(drafts, { isMerging: source.isMerging })
    const image = compile(domains)
    if (remarks) (await import('./lint.ts')).lint(domains, remarks)
    return { ...notes, remarks: remarks?.texts() ?? [], ok: true, image, filesCount: drafts.length }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    return { ...notes, remarks: remarks?.texts() ?? [], ok: false, error: error.message }
  }
}

type FileSource = RuleSource & { from: 'tree' | 'files' }

async function filesOf(source: FileSource, notes: LoadNotes): Promise<RuleFile[]> {
  if (source.from === 'files') return source.files
  const read: FilesRead = await (source.isSettling ? readSettledFiles : readRuleFiles)(source.tree)
  notes.warnings.push(...read.warnings)
  notes.seenCount = read.files.length
  notes.failuresCount = read.failuresCount
  if (read.unreadable) throw read.unreadable
  return read.files
}

async function readDrafts(
  source: FileSource,
  notes: LoadNotes,
  remarks: Remarks | null,
): Promise<RuleDraft[]> {
  const files = await filesOf(source, notes)
  if (files.length === 0) return []
  const { readDraft } = await import('./read.ts') // brings the YAML parser along: 30 ms that xDS need not pay
  const drafts: RuleDraft[] = []
  for (const { name, bytes } of files) {
    remarks?.open(name)
    try {
      const draft = readDraft(name, bytes, remarks)
      const isEmpty = draft.domain === '' && draft.nodes.length === 0 // .gitkeep, notes behind `#`
      if (!isEmpty || isRuleName(name)) drafts.push(draft)
      else notes.warnings.push(`${SKIPPED}: ${name}: holds no rules`)
    } catch (error) {
      if (!(error instanceof ConfigError) || isRuleName(name)) throw error
      notes.warnings.push(`${SKIPPED}: ${error.message}`)
    }
  }
  return drafts
}
