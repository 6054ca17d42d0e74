/**
 * Output of the commands: results on standard output, messages on standard error, so that `KEY=$(sluice monitor keys create)`
 * holds the key alone.
 *
 *     SLUG   TIER  URL                     JSON: two spaces, names and times as the API writes them
 *     one    A     https://one.example
 */
import { fstatSync, writeFileSync } from 'node:fs'

export function print(text: string): void {
  write(`${text}\n`)
}

/** To a file all of it or an error: the stream ignores that a full disk takes only a part. */
export function write(text: string): void {
  const { fd } = process.stdout
  if (fstatSync(fd).isFile()) writeFileSync(fd, text)
  else process.stdout.write(text)
}

export function note(text: string): void {
  process.stderr.write(`${text}\n`)
}

export function printJson(value: unknown): void {
  print(JSON.stringify(value, null, 2))
}

const GAP = '  '

/** The last column is not padded and may hold free text. */
export function printTable(heads: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [heads, ...rows]
  const widths = heads.map((_, column) => Math.max(...lines.map((cells) => cells[column].length)))
  for (const cells of lines)
    print(
      cells
        .map((cell, column) => cell.padEnd(widths[column]))
        .join(GAP)
        .trimEnd(),
    )
}

const EVERY_MS = 100

/** A progress line that is overwritten; on a terminal only. */
export class Progress {
  private readonly stream: Pick<NodeJS.WriteStream, 'write' | 'isTTY'>
  private shownAtMs = Number.NEGATIVE_INFINITY

  constructor(stream: Pick<NodeJS.WriteStream, 'write' | 'isTTY'> = process.stderr) {
    this.stream = stream
  }

  print(text: string): void {
    const nowMs = performance.now()
    if (!this.stream.isTTY || nowMs - this.shownAtMs < EVERY_MS) return
    this.shownAtMs = nowMs
    this.stream.write(`\r${text}\x1b[K`)
  }

  end(): void {
    if (this.shownAtMs > 0) this.stream.write('\r\x1b[K')
  }
}
