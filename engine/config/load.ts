/**
 * The whole way from a source to an image that every thread can use.
 *
 *     tree ──► files ──► drafts (all files' syntax and keys) ──► domains (all files' meaning) ──► image
 *     xDS ─────────────────┘
 *
 * So an error of syntax in any file is told before an error of meaning in any other (spec 1.2). The first error ends the
 * load: the caller gets an image of everything or none at all. Remarks are a step of their own, since they can take as long
 * as the load, and rules in force should not wait for them.
 */
import { createHash, type Hash } from 'node:crypto'
import { compile } from '../match/compile.ts'
import type { RuleDraft } from './draft.ts'
import { ConfigError } from './error.ts'
import type { FilesRead, RuleFile, RuleTree } from './files.ts'
import { isRuleName, readRuleFiles } from './files.ts'
import { LintWarnings } from './lint-warnings.ts'
import type { RulesImage } from './rules.ts'
import { readStableFiles } from './stable-read.ts'
import { validate } from './validate.ts'

const SKIPPED = 'skipped a file that is not named .yaml or .yml'

/** Plain data, so it can be posted to a job. */
export type RuleSource = (
  | { from: 'tree'; tree: RuleTree; isSettling?: boolean } // settling: others may be writing to it (stable-read.ts)
  | { from: 'files'; files: RuleFile[] } // in load order
  | { from: 'drafts'; drafts: RuleDraft[] } // xDS resources in the order of the response
) & {
  isMerging: boolean // MERGE_DOMAIN_CONFIG
}

export interface LoadNotes {
  warnings: string[]
  seenCount: number // files that were read: `runtime.num_values`
  failuresCount: number // files and directories that could not be read: `runtime.load_failures`
  unreadablePath?: string // why the load failed
}

/** Plain data, so it can be posted; the image's memory is shared and not copied. */
export type LoadResult = LoadNotes &
  ({ ok: true; image: RulesImage; filesCount: number } | { ok: false; error: string })

/** A load that has ended, and what is left to do about it. */
export interface Load {
  result: LoadResult
  /** What loads and can hardly be meant: `<file>: line <n>: <text>`. Of a failed load, what was found before the error. */
  remark(): Promise<string[]>
  content: string // a hash of the files; '' for drafts and failed loads
}

/** Loads all rules of a source. A mistake in them is an answer (`ok: false`), not a rejection. */
export async function loadRules(source: RuleSource): Promise<LoadResult> {
  return (await load(source)).result
}

export async function load(source: RuleSource): Promise<Load> {
  const notes: LoadNotes = { warnings: [], seenCount: 0, failuresCount: 0 }
  const remarks = new LintWarnings()
  const hash = createHash('sha256')
  try {
    const drafts = source.from === 'drafts' ? source.drafts : await readDrafts(source, notes, remarks, hash)
    const domains = validate(drafts, { isMerging: source.isMerging })
    const result: LoadResult = { ...notes, ok: true, image: compile(domains), filesCount: drafts.length }
    const remark = async () => {
      const { lint } = await import('./lint.ts')
      lint(domains, remarks)
      return remarks.texts()
    }
    return { result, remark, content: source.from === 'drafts' ? '' : hash.digest('base64') }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const result: LoadResult = { ...notes, ok: false, error: error.message }
    return { result, remark: async () => remarks.texts(), content: '' }
  }
}

type FileSource = RuleSource & { from: 'tree' | 'files' }

async function readSourceFiles(source: FileSource, notes: LoadNotes): Promise<RuleFile[]> {
  if (source.from === 'files') return source.files
  const read: FilesRead = await (source.isSettling ? readStableFiles : readRuleFiles)(source.tree)
  notes.warnings.push(...read.warnings)
  notes.seenCount = read.files.length
  notes.failuresCount = read.failuresCount
  if (read.unreadable) {
    notes.unreadablePath = read.unreadable.path
    throw read.unreadable.error
  }
  return read.files
}

async function readDrafts(
  source: FileSource,
  notes: LoadNotes,
  remarks: LintWarnings,
  hash: Hash,
): Promise<RuleDraft[]> {
  const files = await readSourceFiles(source, notes)
  if (files.length === 0) return []
  const { readDraft } = await import('./read.ts') // brings the YAML parser along: 30 ms that xDS need not pay
  const drafts: RuleDraft[] = []
  for (const { name, bytes } of files) {
    remarks.open(name)
    hash.update(`${name.length} ${name} ${bytes.length} `).update(bytes)
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
