/** Differences between loads of rule files that are meant, as differences.ts has them for answers. */
import type { Loaded } from './loads.ts'

export interface KnownLoad {
  name: string
  reason: string
  explains(texts: string[], ours: Loaded, reference: Loaded): boolean
}

export const KNOWN_LOADS: KnownLoad[] = [
  {
    name: 'both refuse, one of them in its YAML library',
    reason:
      'what a library finds wrong first is its own affair (spec 1.3); both keep the rules that were in force',
    explains: (_texts, ours, reference) =>
      !ours.ok && !reference.ok && isParserError(ours) !== isParserError(reference),
  },
  {
    name: 'share_threshold where the star is not the last letter',
    reason: "the reference at hand is older: `ending with '*'`, since July 2026 `containing '*'`",
    explains: (_texts, _ours, reference) => !reference.ok && reference.error.includes("(ending with '*')"),
  },
  {
    name: 'text after the end of the document',
    reason:
      'yaml.v2 reads to the end of the first node and looks no further, so the rest of a wrongly indented file is ' +
      'dropped without a word; ours refuses the file',
    explains: (texts, ours) =>
      isRefusal(ours, / at node end|directive indicator/) || texts.some((text) => /\S\.\.\.$/m.test(text)),
  },
  {
    name: 'a comment right after a quote or a bracket',
    reason: 'yaml.v2 takes `}# end`, which is no YAML: a comment needs a space before it',
    explains: (_texts, ours) => isRefusal(ours, /Comments must be separated/),
  },
  {
    name: 'quoted text and brackets that go on too far to the left',
    reason: 'yaml.v2 takes the next line whatever its indentation, which is no YAML',
    explains: (_texts, ours) => isRefusal(ours, /Missing closing ["']quote|must be sufficiently indented/),
  },
  {
    name: 'a byte order mark inside the text',
    reason: 'yaml.v2 takes it; ours refuses all control characters but at the start',
    explains: (texts, ours) =>
      isRefusal(ours, /control characters/) && texts.some((text) => text.lastIndexOf('\ufeff') > 0),
  },
  {
    name: 'line breaks of YAML 1.1',
    reason:
      'U+0085, U+2028, U+2029 and a lone carriage return end a line there; nobody writes rules with them',
    explains: (texts) => texts.some((text) => /[\u0085\u2028\u2029]|\r(?!\n)/.test(text)),
  },
  {
    name: 'a colon right before a comma, a bracket or text',
    reason:
      'in `{a:}` the key is `a:` in YAML 1.1, and `a` since 1.2; `{a: :b}` is an error there, and text since 1.2',
    explains: (texts) => texts.some((text) => /[{[,][^\n]*(:[,}\]]|\s:\S)/.test(text)),
  },
]

export function knownLoadDifference(texts: string[], ours: Loaded, reference: Loaded): KnownLoad | undefined {
  return KNOWN_LOADS.find((known) => known.explains(texts, ours, reference))
}

/** An error of syntax. Of one that says what cannot become what, the spec fixes that it comes before those of 1.4. */
function isParserError({ error }: { error: string }): boolean {
  return error.includes(': error loading config file: ') && !error.includes('cannot unmarshal')
}

function isRefusal(ours: Loaded, pattern: RegExp): boolean {
  return !ours.ok && pattern.test(ours.error)
}
