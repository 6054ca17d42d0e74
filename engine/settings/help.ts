/**
 * The table of settings for people: plain text for the terminal, Markdown for docs/settings.md.
 *
 *     Redis                                                            group
 *       REDIS_URL=/var/run/nutcracker/ratelimit.sock                   name and default
 *           string; host:port, socket or redis://; older name KVSTORE_URL
 */
import { families, type Row, rows, type State } from './table.ts'

/** A variable, or a family of them, as both forms print it. */
interface Entry {
  name: string
  older: string | null
  group: string
  type: string
  default: string
  help: string
  state: State
}

const toEntries = (more: readonly Row[]): Entry[] => [
  ...[...rows, ...more].map(({ name, older, group, kind, state, default: preset, help }) => ({
    name,
    older,
    group,
    type: kind.name === 'enum' ? kind.allowed : kind.name,
    default: preset,
    help,
    state,
  })),
  ...families.map(({ kindName, ...family }) => ({ ...family, type: kindName, default: '' })),
]

const NAME_INDENT = 2
const TEXT_INDENT = 6
const COLUMNS_MIN = 40 // in a narrower terminal, lines are longer than it is wide

/** All settings and `more` as text, wrapped to `columns`. */
export function settingsHelp(columns = 100, more: readonly Row[] = []): string {
  const width = Math.max(columns, COLUMNS_MIN) - TEXT_INDENT
  const block = (entry: Entry) => {
    const notYet = isBuilt(entry) ? '' : '  (not yet)'
    const older = entry.older === null ? '' : `older name ${entry.older}`
    const lines = wrap([entry.type, entry.help, older].filter(Boolean).join('; '), width)
    const head = `${' '.repeat(NAME_INDENT)}${entry.name}=${entry.default}${notYet}`
    return [head, ...lines.map((line) => ' '.repeat(TEXT_INDENT) + line)].join('\n')
  }
  const opening = wrap(
    'Settings are environment variables, shown with their defaults. An empty value means the default, except ' +
      'where empty is a value itself. Durations are written 10s, 1h30m or 150us, lists a,b and maps k:v,k2:v2.',
    width + TEXT_INDENT,
  )
  const groups = grouped(more).map(([title, group]) => [title, ...group.map(block)].join('\n'))
  return [opening.join('\n'), ...groups].join('\n\n')
}

/** All settings and `more` as Markdown tables, one per group. */
export function settingsMarkdown(more: readonly Row[] = []): string {
  const line = (entry: Entry) => {
    const notYet = isBuilt(entry) ? '' : '*(not yet)*'
    const older = entry.older === null ? '' : code(entry.older)
    const preset = entry.default === '' ? 'empty' : code(entry.default)
    const cells = [
      code(entry.name),
      older,
      entry.type,
      preset,
      [entry.help, notYet].filter(Boolean).join(' '),
    ]
    return `| ${cells.join(' | ')} |`
  }
  const heading = '| Variable | Older name | Type | Default | Meaning |\n|---|---|---|---|---|'
  return grouped(more)
    .map(([title, group]) => `**${title}**\n\n${heading}\n${group.map(line).join('\n')}`)
    .join('\n\n')
}

function isBuilt({ state }: Entry): boolean {
  return state === 'built' || state === 'inert'
}

function code(text: string): string {
  return `\`${text}\``
}

function grouped(more: readonly Row[]): [string, Entry[]][] {
  const groups = new Map<string, Entry[]>()
  for (const entry of toEntries(more)) {
    const group = groups.get(entry.group)
    if (group) group.push(entry)
    else groups.set(entry.group, [entry])
  }
  return [...groups]
}

/** Breaks a text at spaces into lines of at most `width`; a longer word gets a line of its own. */
function wrap(text: string, width: number): string[] {
  const lines: string[] = []
  for (const word of text.split(' ')) {
    const last = lines.at(-1)
    if (last !== undefined && last.length + 1 + word.length <= width)
      lines[lines.length - 1] = `${last} ${word}`
    else lines.push(word)
  }
  return lines
}
