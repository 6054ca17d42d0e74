/**
 * Writes the table of settings into docs/settings.md, between `<!-- settings -->` and `<!-- /settings -->`.
 *
 *     node scripts/dev/settings-table.ts            writes docs/settings.md
 *     node scripts/dev/settings-table.ts --check    changes nothing; exit 1 when the table is not the current one
 *
 * A file name as the last argument replaces docs/settings.md.
 */
import { readFileSync, writeFileSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { settingsMarkdown } from '../../engine/settings/help.ts'
import { monitorRows } from '../../monitor/settings.ts'

const BETWEEN_MARKERS = /(?<=^<!-- settings -->\n).*?(?=^<!-- \/settings -->$)/ms

const isCheck = process.argv.includes('--check')
const file =
  process.argv.slice(2).find((arg) => arg !== '--check') ??
  fileURLToPath(new URL('../../docs/settings.md', import.meta.url))

process.exitCode = updateTable()

function updateTable(): number {
  const text = readFileSync(file, 'utf8')
  if (!BETWEEN_MARKERS.test(text)) {
    console.error(`${file}: no place for the table. Add the lines <!-- settings --> and <!-- /settings -->.`)
    return 1
  }
  const current = text.replace(BETWEEN_MARKERS, () => `\n${settingsMarkdown(monitorRows)}\n\n`)
  if (text === current) return 0
  if (isCheck) {
    console.error(`${file}: the table of settings is not current. Run node scripts/dev/settings-table.ts.`)
    return 1
  }
  writeFileSync(file, current)
  return 0
}
