/**
 * Finds every regular expression in the sources: literals, and the calls that build one from text.
 *
 *     const END = /;\s*$/           { line: 1, text: '/;\\s*$/', isBuilt: false, … }
 *     new RegExp(`^${name}$`)       { line: 2, text: 'new RegExp(`^${name}$`)', isBuilt: true, … }
 *     text.match('a+')              { line: 3, text: "text.match('a+')", isBuilt: true, … }
 *
 * A tokenizer, not a parser: a slash opens a literal unless the token before it can end an expression and no `.test(` or
 * `.exec(` follows. Code in the form that Biome gives it never divides after `}`.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { PATTERN_NOTES, type PatternNote } from './pattern-list.ts'

/** The sources that run in the service. */
export const PATTERN_FOLDERS = ['engine', 'monitor', 'proto', 'transports']

export interface FoundPattern {
  file: string // from the root of the repository
  line: number
  text: string // as it is written
  isBuilt: boolean // from text at run time, so what it matches cannot be read here
  isRepeated: boolean // matched repeatedly over one text: flag g or y, or an argument of split
}

const LIST = 'scripts/dev/pattern-list.ts'

// Each alternative is tried at one place only (sticky), in this order.
const TOKEN = new RegExp(
  [
    /(?<blank>\s+|\/\/.*|\/\*[\s\S]*?\*\/)/,
    /(?<string>'(?:\\.|[^'\\\n])*'|"(?:\\.|[^"\\\n])*")/,
    /(?<literal>\/(?![*/])(?:\\.|\[(?:\\.|[^\]\\\n])*\]|[^/\\[\n])+\/[a-z]*)/,
    /(?<word>[\w$#\u0080-\uffff]+)/,
    /(?<other>[\s\S])/,
  ]
    .map(({ source }) => source)
    .join('|'),
  'y',
)
const OPERATOR_WORDS = new Set([
  'return',
  'typeof',
  'case',
  'in',
  'of',
  'delete',
  'void',
  'throw',
  'new',
  'yield',
])
const EXPRESSION_ENDS = new Set([')', ']', '"', '`'])
const MATCH_CALL = /^\.(?:test|exec)\b/ // only an expression has these methods; also after `if (…)`
const NAME_CHARS_MAX = 40 // of the called function

export function findPatterns(file: string, source: string): FoundPattern[] {
  const found: FoundPattern[] = []
  const templates: number[] = [] // per open `${`: how many braces are open inside it
  let before = '' // the last token that is not blank; a string stands as its quote
  const add = (index: number, text: string, isBuilt: boolean, isRepeated: boolean) => {
    const line = source.slice(0, index).split('\n').length
    found.push({ file, line, text, isBuilt, isRepeated })
  }
  let index = 0
  while (index < source.length) {
    TOKEN.lastIndex = index
    const { blank, string, literal, word } = TOKEN.exec(source)?.groups ?? {}
    const char = source[index]
    if (blank) {
      index += blank.length
    } else if (string) {
      before = '"'
      index += string.length
    } else if (
      literal &&
      (!endsExpression(before) ||
        MATCH_CALL.test(source.slice(index + literal.length, index + literal.length + 6)))
    ) {
      const flags = literal.slice(literal.lastIndexOf('/') + 1)
      add(index, literal, false, /[gy]/.test(flags) || source.slice(0, index).endsWith('.split('))
      before = '"'
      index += literal.length
    } else if (word) {
      before = word
      index += word.length
    } else if (char === '`' || (char === '}' && templates.at(-1) === 0)) {
      if (char === '}') templates.pop()
      const end = findTemplateEnd(source, index + 1)
      if (source[end] === '{') templates.push(0)
      before = source[end] === '{' ? '{' : '`'
      index = end + 1
    } else {
      if (char === '{' && templates.length > 0) templates[templates.length - 1]++
      if (char === '}' && templates.length > 0) templates[templates.length - 1]--
      if (char === '(' && buildsPattern(source, index)) add(index, getCallText(source, index), true, true)
      before = char
      index++
    }
  }
  return found
}

/** The expressions of every TypeScript source below these folders of `root`. */
export function findPatternsBelow(root: string, folders: readonly string[]): FoundPattern[] {
  return folders.flatMap((folder) =>
    readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
      .filter((name) => name.endsWith('.ts'))
      .sort()
      .flatMap((name) => findPatterns(`${folder}/${name}`, readFileSync(join(root, folder, name), 'utf8'))),
  )
}

/** Built expressions without an entry in the list, and entries whose expression is gone; as `file:line: what. Remedy.` */
export function checkPatterns(found: readonly FoundPattern[], notes = PATTERN_NOTES): string[] {
  const diagnostics: string[] = []
  for (const pattern of found) {
    if (!pattern.isBuilt || findNote(pattern, notes)) continue
    diagnostics.push(
      `${pattern.file}:${pattern.line}: builds ${pattern.text}, which the hostile-input test cannot see. List it in ${LIST}.`,
    )
  }
  for (const note of notes) {
    if (found.some((pattern) => findNote(pattern, [note]))) continue
    diagnostics.push(
      `${LIST}: lists ${note.text} of ${note.file}, which does not exist. Remove the entry, or correct its text.`,
    )
  }
  return diagnostics
}

export function findNote({ file, text }: FoundPattern, notes = PATTERN_NOTES): PatternNote | undefined {
  return notes.find((note) => note.file === file && note.text === text)
}

/** The expression of a literal. */
export function toRegExp(literal: string): RegExp {
  const end = literal.lastIndexOf('/')
  return new RegExp(literal.slice(1, end), literal.slice(end + 1))
}

function endsExpression(token: string): boolean {
  return EXPRESSION_ENDS.has(token) || (/^[\w$#\u0080-\uffff]/.test(token) && !OPERATOR_WORDS.has(token))
}

/** The index where a template's text ends: at its closing backquote, or at the brace of the next `${`. */
function findTemplateEnd(source: string, from: number): number {
  let index = from
  while (index < source.length && source[index] !== '`') {
    if (source[index] === '$' && source[index + 1] === '{') return index + 1
    index += source[index] === '\\' ? 2 : 1
  }
  return index
}

/** Whether the parenthesis opens a call that creates an expression from its argument. */
function buildsPattern(source: string, open: number): boolean {
  const name = /(?:\bRegExp|\.(match|matchAll|search))$/.exec(
    source.slice(Math.max(0, open - NAME_CHARS_MAX), open),
  )
  return name !== null && (name[1] === undefined || /^['"`]/.test(source.slice(open + 1, open + 2)))
}

/** The call on one line, up to the parenthesis that closes it. Parentheses in its strings must be balanced. */
function getCallText(source: string, open: number): string {
  const [name] = /(?:new )?[.\w]*$/.exec(
    source.slice(Math.max(0, open - NAME_CHARS_MAX), open),
  ) as RegExpExecArray
  let depth = 0
  let end = open
  do {
    if (source[end] === '(') depth++
    if (source[end] === ')') depth--
    end++
  } while (depth > 0 && end < source.length)
  return `${name}${source.slice(open, end)}`.replaceAll(/\s*\n\s*/g, ' ')
}
