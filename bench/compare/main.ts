/** `npm run compare`: see README.md, or --help. */
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { type Options, parseOptions, USAGE } from './options.ts'
import { appendRow } from './rows.ts'
import { isPinned, startBoth } from './services.ts'
import { formatTable, formatTableHead } from './table.ts'
import { compare, runLoad, SATURATION } from './windows.ts'

const CLOSED = ['4x16', '64x1', '1x1']
const OPEN = ['open:25%', 'open:50%', 'open:75%']

export interface Context {
  stdout: { write(text: string): unknown }
  stderr: { write(text: string): unknown }
}

/** Runs the command line and returns the exit code. */
export async function main(args: string[], context: Context): Promise<number> {
  try {
    return await runCommand(args, context)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error // a bug: the stack trace is the report
    context.stderr.write(`compare: ${error.message}\n`)
    return error.exitCode
  }
}

async function runCommand(args: string[], { stdout }: Context): Promise<number> {
  if (args.length === 0 || args.some((arg) => /^--?h(elp)?$/.test(arg))) {
    stdout.write(USAGE)
    return args.length === 0 ? 2 : 0
  }
  const options = parseOptions(args)
  const started = options.given === null ? await startBoth(options) : null
  const sides = started ?? options.given!
  for (const signal of ['SIGINT', 'SIGTERM'] as const) {
    process.once(signal, () => {
      void (started?.stop() ?? Promise.resolve()).then(() => process.exit(130))
    })
  }
  try {
    stdout.write(
      `A ${sides.a.endpoint} ${sides.a.cpu.join(' ')}\nB ${sides.b.endpoint} ${sides.b.cpu.join(' ')}\n`,
    )
    if (!isPinned) stdout.write('Not pinned: needs taskset and two cores. Ratios will vary more.\n')
    stdout.write(`\n${formatTableHead()}`)
    await compareAll(options, sides, stdout)
    return 0
  } finally {
    await started?.stop()
  }
}

async function compareAll(
  options: Options,
  sides: Parameters<typeof compare>[2],
  stdout: Context['stdout'],
): Promise<void> {
  const usual = options.given === null ? [...CLOSED, ...OPEN] : CLOSED
  let saturation = 0 // decisions per second of B
  for (const name of options.workloads.length > 0 ? options.workloads : usual) {
    const [, share] = /^open:(\d+)%$/.exec(name) ?? []
    if (share !== undefined && saturation === 0) {
      saturation = (await runLoad(options, SATURATION, sides.b)).ratePerSec
    }
    const workload = share === undefined ? name : `open:${Math.round((saturation * Number(share)) / 100)}`
    const comparison = await compare(options, workload, sides)
    if (workload === SATURATION) saturation = comparison.b.ratePerSec.median
    if (share !== undefined) comparison.workload = `${name} = ${workload.slice(5)}/s`
    stdout.write(formatTable(comparison))
    if (options.out !== '') appendRow(options, comparison)
  }
}

if (import.meta.main) process.exitCode = await main(process.argv.slice(2), process)
