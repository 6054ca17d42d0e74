/**
 * Loads YAML texts: `loadNode('value: 7')` returns the first node of a domain, with that line in it.
 */
import { readDraft } from '../../../engine/config/read.ts'
import type { RuleDomain, RuleNode } from '../../../engine/config/rules.ts'
import { validate } from '../../../engine/config/validate.ts'

/** Files `0.yaml`, `1.yaml`, … loaded as one configuration. */
export function loadDomains(files: (string | Uint8Array)[], isMerging = false): RuleDomain[] {
  const drafts = files.map((yaml, i) => readDraft(`${i}.yaml`, Buffer.from(yaml)))
  return validate(drafts, { isMerging })
}

/** The error text of one file after `0.yaml: `, or 'no error'. */
export function getLoadError(...files: (string | Uint8Array)[]): string {
  try {
    loadDomains(files)
  } catch (error) {
    return (error as Error).message.replace('0.yaml: ', '')
  }
  return 'no error'
}

/** A file of one descriptor with key `k` and these lines in it at its end; the first of them is line 4. */
export function formatFile(...lines: string[]): string {
  return ['domain: d', 'descriptors:', '  - key: k', ...lines.map((line) => `    ${line}`)].join('\n')
}

export function loadNode(...lines: string[]): RuleNode {
  return loadDomains([formatFile(...lines)])[0].nodes[0]
}

export function getNodeError(...lines: string[]): string {
  return getLoadError(formatFile(...lines))
}
