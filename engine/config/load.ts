/**
 * Loads rules: from a source to an image that every thread can use.
 *
 *     tree ──► files ──► drafts (syntax and keys of all files) ──► domains (all files validated) ──► image
 *     xDS ─────────────────┘
 *
 * A syntax error in any file is therefore reported before a semantic error in any other (spec 1.2). The first error ends the
 * load: the result is an image of everything, or none. Linting is a separate step, because it can take as long as the load
 * and must not delay the rules.
 */
import { createHash, type Hash } from 'node:crypto'
import { compile } from '../match/compile.ts'
import type { RuleDraft } from './draft.ts'
import { ConfigError } from './error.ts'
import type { FilesRead, RuleFile, RuleTree } from './files.ts'
import { isRuleName, readRuleFiles } from './files.ts'
import { LintWarnings } from './lint-warnings.ts'
import type { RulesImage, StoreErrorPolicy } from './rules.ts'
import { readStableFiles } from './stable-read.ts'
import { validate } from './validate.ts'

const SKIPPED = 'skipped a file that is not named .yaml or .yml'

/** Plain data, so it can be posted to a job. */
export type RuleSource = (
  | { from: 'tree'; tree: RuleTree; isSettling?: boolean } // settling: files may be being written (stable-read.ts)
  | { from: 'files'; files: RuleFile[] } // in load order
  | { from: 'drafts'; drafts: RuleDraft[] } // xDS resources in the order of the response
) & {
  isMerging: boolean // MERGE_DOMAIN_CONFIG
  defaultPolicy?: StoreErrorPolicy // STORE_ERROR_POLICY, for lint warnings; default: unknown
  isPortable?: boolean // lint warnings about keys that envoyproxy/ratelimit refuses; default false
}

export interface LoadNotes {
  warnings: string[]
  seenCount: number // files read: `runtime.num_values`
  failuresCount: number // files and directories that could not be read: `runtime.load_failures`
  unreadablePath?: string // the path whose rules are missing, if that failed the load
}

/** Plain data, so it can be posted; the image's memory is shared, not copied. */
export type LoadResult = LoadNotes &
  ({ ok: true; image: RulesImage; filesCount: number } | { ok: false; error: string })

export interface Load {
  result: LoadResult
  /** Lint warnings, each `<file>: line <n>: <text>`. After a failed load, those found before the error. */
  lint(): Promise<string[]>
  contentHash: string // of the files' names and bytes; '' for drafts and failed loads
}

/** Loads all rules of a source. Invalid rules are a result (`ok: false`), not a rejection. */
export async function loadRules(source: RuleSource): Promise<LoadResult> {
  return (await load(source)).result
}

export async function load(source: RuleSource): Promise<Load> {
  const notes: LoadNotes = { warnings: [], seenCount: 0, failuresCount: 0 }
  const lintWarnings = new LintWarnings(source.isPortable)
  const hash = createHash('sha256')
  try {
    const drafts =
      source.from === 'drafts' ? source.drafts : await readDrafts(source, notes, lintWarnings, hash)
    const domains = validate(drafts, { isMerging: source.isMerging })
    const result: LoadResult = { ...notes, ok: true, image: compile(domains), filesCount: drafts.length }
    const lintDomains = async () => {
      const { lint } = await import('./lint.ts')
      lint(domains, lintWarnings, source.defaultPolicy)
      return lintWarnings.texts()
    }
    return { result, lint: lintDomains, contentHash: source.from === 'drafts' ? '' : hash.digest('base64') }
  } catch (error) {
    if (!(error instanceof ConfigError)) throw error
    const result: LoadResult = { ...notes, ok: false, error: error.message }
    return { result, lint: async () => lintWarnings.texts(), contentHash: '' }
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
  lintWarnings: LintWarnings,
  hash: Hash,
): Promise<RuleDraft[]> {
  const files = await readSourceFiles(source, notes)
  if (files.length === 0) return []
  const { readDraft } = await import('./read.ts') // loads the YAML parser: 30 ms, not needed for xDS
  const drafts: RuleDraft[] = []
  for (const { name, bytes } of files) {
    lintWarnings.open(name)
    hash.update(`${name.length} ${name} ${bytes.length} `).update(bytes)
    try {
      const draft = readDraft(name, bytes, lintWarnings)
      const isEmpty = draft.domain === '' && draft.nodes.length === 0 // .gitkeep, or only comments
      if (!isEmpty || isRuleName(name)) drafts.push(draft)
      else notes.warnings.push(`${SKIPPED}: ${name}: holds no rules`)
    } catch (error) {
      if (!(error instanceof ConfigError) || isRuleName(name)) throw error
      notes.warnings.push(`${SKIPPED}: ${error.message}`)
    }
  }
  return drafts
}
