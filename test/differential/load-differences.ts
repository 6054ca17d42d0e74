/** Deliberate differences between loads of rule files. differences.ts has those between responses. */
import type { Loaded } from './loads.ts'

export interface KnownLoad {
  name: string
  reason: string
  explains(texts: string[], sluice: Loaded, reference: Loaded): boolean
}

export const KNOWN_LOADS: KnownLoad[] = [
  {
    name: 'both refuse, one of them in its YAML library',
    reason: 'which error a library finds first is not specified (spec 1.3); both keep the rules in force',
    explains: (_texts, sluice, reference) =>
      !sluice.ok && !reference.ok && isParserError(sluice) !== isParserError(reference),
  },
  {
    name: 'share_threshold where the star is not the last letter',
    reason: "the reference at hand is older: `ending with '*'`, since July 2026 `containing '*'`",
    explains: (_texts, _ours, reference) => !reference.ok && reference.error.includes("(ending with '*')"),
  },
  {
    name: 'text after the end of the document',
    reason:
      'yaml.v2 reads only to the end of the first node, so the rest of a wrongly indented file is dropped ' +
      'silently; Sluice refuses the file',
    explains: (texts, sluice) =>
      isRefusal(sluice, / at node end|directive indicator/) || texts.some((text) => /\S\.\.\.$/m.test(text)),
  },
  {
    name: 'a comment right after a quote or a bracket',
    reason: 'yaml.v2 accepts `}# end`, which is invalid YAML: a comment needs a space before it',
    explains: (_texts, sluice) => isRefusal(sluice, /Comments must be separated/),
  },
  {
    name: 'quoted text and brackets that continue too far to the left',
    reason: 'yaml.v2 accepts the next line with any indentation, which is invalid YAML',
    explains: (_texts, sluice) =>
      isRefusal(sluice, /Missing closing ["']quote|must be sufficiently indented/),
  },
  {
    name: 'a byte order mark inside the text',
    reason: 'yaml.v2 accepts it; Sluice refuses it except at the start, as all control characters',
    explains: (texts, sluice) =>
      isRefusal(sluice, /control characters/) && texts.some((text) => text.lastIndexOf('\ufeff') > 0),
  },
  {
    name: 'line breaks of YAML 1.1',
    reason:
      'U+0085, U+2028, U+2029 and a lone carriage return end a line in the reference; they do not occur in real rule files',
    explains: (texts) => texts.some((text) => /[\u0085\u2028\u2029]|\r(?!\n)/.test(text)),
  },
  {
    name: 'a colon right before a comma, a bracket or text',
    reason:
      'in `{a:}` the key is `a:` in YAML 1.1, and `a` since 1.2; `{a: :b}` is an error there, and text since 1.2',
    explains: (texts) => texts.some((text) => /[{[,][^\n]*(:[,}\]]|\s:\S)/.test(text)),
  },
]

export function knownLoadDifference(
  texts: string[],
  sluice: Loaded,
  reference: Loaded,
): KnownLoad | undefined {
  return KNOWN_LOADS.find((known) => known.explains(texts, sluice, reference))
}

/** A syntax error. Conversion errors are not among them: the spec fixes that they precede those of 1.4. */
function isParserError({ error }: { error: string }): boolean {
  return error.includes(': error loading config file: ') && !error.includes('cannot unmarshal')
}

function isRefusal(sluice: Loaded, pattern: RegExp): boolean {
  return !sluice.ok && pattern.test(sluice.error)
}
