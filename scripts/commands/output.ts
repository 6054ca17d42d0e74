/**
 * Output of the commands: results on standard output, messages on standard error, so that `KEY=$(sluice monitor keys create)`
 * holds the key alone.
 *
 *     SLUG   TIER  URL                     JSON: two spaces, names and times as the API writes them
 *     one    A     https://one.example
 */
import type { Io, TextStream } from './io.ts'

export function print({ stdout }: Io, text: string): void {
  stdout.write(`${text}\n`)
}

export function note({ stderr }: Io, text: string): void {
  stderr.write(`${text}\n`)
}

export function printJson(io: Io, value: unknown): void {
  print(io, JSON.stringify(value, null, 2))
}

const GAP = '  '

/** The last column is not padded and may hold free text. */
export function printTable(io: Io, headings: readonly string[], rows: readonly (readonly string[])[]): void {
  const lines = [headings, ...rows]
  const widths = headings.map((_, column) => Math.max(...lines.map((cells) => cells[column].length)))
  for (const cells of lines)
    print(
      io,
      cells
        .map((cell, column) => cell.padEnd(widths[column]))
        .join(GAP)
        .trimEnd(),
    )
}

const EVERY_MS = 100

/** A progress line that is overwritten; on a terminal only. */
export class Progress {
  private readonly stream: TextStream
  private shownAtMs = Number.NEGATIVE_INFINITY

  constructor({ stderr }: Pick<Io, 'stderr'>) {
    this.stream = stderr
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
