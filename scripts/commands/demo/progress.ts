/** The progress of the demo's start: on a terminal one line that is rewritten, elsewhere one line per stage. */
export interface ProgressOutput {
  isTTY?: boolean
  columns?: number
  write(text: string): unknown
}

export class Progress {
  private readonly output: ProgressOutput
  private stage = ''

  constructor(output: ProgressOutput) {
    this.output = output
  }

  /** Begins a stage, or shows how much of it is done: 0 to 1. */
  show(stage: string, share?: number): void {
    if (this.output.isTTY) {
      const line = share === undefined ? stage : `${stage}: ${Math.floor(share * 100)} %`
      this.output.write(`\r\x1b[K${line.slice(0, (this.output.columns ?? 80) - 1)}`)
    } else if (stage !== this.stage) this.output.write(`${stage}\n`)
    this.stage = stage
  }

  /** Removes the line, so that something else can be written. */
  clear(): void {
    if (this.output.isTTY && this.stage !== '') this.output.write('\r\x1b[K')
    this.stage = ''
  }
}
