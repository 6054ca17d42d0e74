/**
 * YAML to rules, short: `nodeOf('value: 7')` is the first node of a domain, with that line in it.
 */
import { readDraft } from '../../../engine/config/read.ts'
import type { RuleDomain, RuleNode } from '../../../engine/config/rules.ts'
import { validate } from '../../../engine/config/validate.ts'

/** Files `0.yaml`, `1.yaml`, … loaded as one configuration. */
export function rulesOf(files: (string | Uint8Array)[], isMerging = false): RuleDomain[] {
  const drafts = files.map((yaml, i) => readDraft(`${i}.yaml`, Buffer.from(yaml)))
  return validate(drafts, { isMerging })
}

/** The error text of one file behind `0.yaml: `, or 'no error'. */
export function errorOf(...files: (string | Uint8Array)[]): string {
  try {
    rulesOf(files)
  } catch (error) {
    return (error as Error).message.replace('0.yaml: ', '')
  }
  return 'no error'
}

/** A file of one descriptor with key `k` and these lines in it; the first of them is line 4. */
export function fileOf(...lines: string[]): string {
  return ['domain: d', 'descriptors:', '  - key: k', ...lines.map((line) => `    ${line}`)].join('\n')
}

export function nodeOf(...lines: string[]): RuleNode {
  return rulesOf([fileOf(...lines)])[0].nodes[0]
}

export function nodeError(...lines: string[]): string {
  return errorOf(fileOf(...lines))
}
