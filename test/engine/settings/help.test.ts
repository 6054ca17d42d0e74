import { spawnSync } from 'node:child_process'
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { settingsHelp, settingsMarkdown } from '../../../engine/settings/help.ts'
import { families, rows } from '../../../engine/settings/table.ts'
import { monitorRows } from '../../../monitor/settings.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const ROOT = join(import.meta.dirname, '../../..')

describe('the table contains section 10 of the specification', () => {
  const known = new Map<string, { older: string | null; type: string; default: string }>([
    ...rows.map(
      (row) => [row.name, { older: row.older, type: row.kind.name, default: row.default }] as const,
    ),
    ...families.map((row) => [row.name, { older: row.older, type: row.kindName, default: '' }] as const),
  ])

  test.each(decisionRows())('$id: $name', ({ name, older, type, default: preset }) => {
    const row = known.get(name)
    expect(row?.older).toBe(older)
    expect(row?.type === 'enum' ? 'string' : row?.type).toBe(type)
    if (preset !== null) expect(row?.default).toBe(preset)
  })

  test('no variable is in it twice', () => {
    const names = rows.flatMap(({ name, older }) => [name, older ?? name])
    const twice = names.filter((name, i) => names.indexOf(name) !== i && name !== names[i - 1])
    expect(twice).toEqual([])
    expect(decisionRows().length).toBeGreaterThan(110)
  })
})

interface SpecRow {
  id: string
  name: string
  older: string | null // null = none
  type: string
  default: string | null // null = the specification leaves it open
}

/** The rows of the specification's table, a row that names two variables as two. */
function decisionRows(): SpecRow[] {
  const spec = readFileSync(join(ROOT, 'docs/spec/decision-service.md'), 'utf8')
  const section = spec.slice(spec.indexOf('\n## 10. '), spec.indexOf('\n## 11. '))
  const lines = section.split('\n').filter((line) => line.startsWith('| `'))
  return lines.flatMap((line, i) => {
    const [names, older, type, preset] = line
      .split('|')
      .slice(1)
      .map((cell) => cell.trim())
    return [...names.matchAll(/`([^`]+)`/g)].map(([, name]) => ({
      id: `10#${i + 1}`,
      name,
      older: specOlder(name, older),
      type: specType(type),
      default: specDefault(preset),
    }))
  })
}

function specOlder(name: string, cell: string): string | null {
  const older = cell.replaceAll('`', '')
  if (['-', '=', 'not shown'].includes(older)) return null
  return older.includes('...') ? name.replace('REDIS_', 'KVSTORE_') : older // `KVSTORE_..._WAIT_DURATION`
}

function specType(cell: string): string {
  const type = cell.replace(/ `.*`$/, '')
  return { int64: 'int', float32: 'float' }[type] ?? type
}

function specDefault(cell: string): string | null {
  if (cell === '-') return null
  if (cell.startsWith('empty') || cell === 'none') return ''
  return cell.startsWith('unset') ? '0' : /^`([^`]*)`/.exec(cell)![1]
}

describe('help for the terminal', () => {
  test('names every variable, its older name and its default', () => {
    const help = settingsHelp(100, monitorRows)
    for (const { name, older, default: preset } of [...rows, ...monitorRows]) {
      expect(help).toContain(`\n  ${name}=${preset}`)
      if (older !== null) expect(help).toContain(older)
    }
    expect(help).toContain('\n  DOG_STATSD_MOGRIFIER_<NAME>_PATTERN=\n')
  })

  test('marks what is not implemented yet', () => {
    const later = monitorRows.map((row) =>
      row.name === 'PROBE_SLOW_MS' ? { ...row, state: 'later' as const } : row,
    )
    expect(settingsHelp(100, later)).toContain('  PROBE_SLOW_MS=3000  (not yet)\n')
    expect(settingsHelp()).toContain(
      '  GRPC_PORT=8081\n      int; gRPC port: rate limit decisions and health; 0 = any free port\n',
    )
  })

  test.each([60, 80, 100])('fits into %i columns', (columns) => {
    const names = /^ {2}\S/ // a name and its default are not broken
    const tooLong = settingsHelp(columns, monitorRows)
      .split('\n')
      .filter((line) => line.length > columns && !names.test(line))
    expect(tooLong).toEqual([])
  })
})

describe('the table in a README', () => {
  const run = (...args: string[]) =>
    spawnSync(process.execPath, [join(ROOT, 'scripts/dev/settings-table.ts'), ...args])
  const createFile = (text: string) => {
    const path = join(makeTemporaryFolder(), 'README.md')
    writeFileSync(path, text)
    return path
  }

  test('is current', () => {
    const { status, stderr } = run('--check')
    expect(`${status} ${stderr}`).toBe('0 ')
  })

  test('has five cells in each row', () => {
    const lines = settingsMarkdown(monitorRows)
      .split('\n')
      .filter((line) => line.startsWith('|'))
    for (const line of lines) expect(line.split('|')).toHaveLength(7)
  })

  test('is written between the markers, and nothing else changes', () => {
    const file = createFile('above\n<!-- settings -->\nold\n<!-- /settings -->\nbelow\n')
    const check = run('--check', file)
    expect(check.status).toBe(1)
    expect(String(check.stderr)).toContain('is not current. Run node scripts/dev/settings-table.ts.')
    expect(run(file).status).toBe(0)
    const expected = `above\n<!-- settings -->\n\n${settingsMarkdown(monitorRows)}\n\n<!-- /settings -->\nbelow\n`
    expect(readFileSync(file, 'utf8')).toBe(expected)
    expect(run('--check', file).status).toBe(0)
  })

  test('needs its markers', () => {
    const { status, stderr } = run(createFile('no markers\n'))
    expect(status).toBe(1)
    expect(String(stderr)).toContain('Add the lines <!-- settings --> and <!-- /settings -->.')
  })
})
