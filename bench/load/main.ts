/** `npm run load`: see README.md, or --help. */
import { accessSync, constants, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { parseOptions, usage } from './options.ts'
import { formatHtml } from './report.ts'
import { formatRules } from './requests.ts'
import { isFailed, type Progress, run } from './run.ts'
import { createProgress, formatSummary } from './text.ts'

const SILENT: Progress = { everyMs: 60_000, print: () => {} }
const ECHO_MS = 500 // npm passes on a Ctrl-C that this process has received itself

export interface Context {
  stdout: Output
  stderr: Output
  /** Ends the window early. */
  ending?: AbortSignal
}

interface Output {
  isTTY?: boolean
  write(text: string): unknown
}

/** Runs the command line and returns the exit code. */
export async function main(args: string[], context: Context): Promise<number> {
  try {
    return await runCommand(args, context)
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error // a bug: the stack trace is the report
    context.stderr.write(`load: ${error.message}\n`)
    return error.exitCode
  }
}

async function runCommand(args: string[], { stdout, stderr, ending }: Context): Promise<number> {
  if (args.length === 0 || args.some((arg) => /^--?h(elp)?$/.test(arg))) {
    stdout.write(usage())
    return args.length === 0 ? 2 : 0
  }
  if (args.includes('--rules')) {
    const rest = args.filter((arg) => arg !== '--rules')
    stdout.write(formatRules(parseOptions(['grpc://unused', ...rest]).domain))
    return 0
  }
  const options = parseOptions(args)
  const isQuiet = options.json === '-'
  if (!isQuiet) checkFile('json', options.json)
  checkFile('html', options.html)
  const result = await run(options, isQuiet ? SILENT : createProgress(stderr), ending)
  if (stderr.isTTY && !isQuiet) stderr.write('\r\x1b[K')
  if (isQuiet) stdout.write(`${JSON.stringify(result)}\n`)
  else stdout.write(formatSummary(result))
  if (options.json !== '' && !isQuiet) save('json', options.json, `${JSON.stringify(result, null, 2)}\n`)
  if (options.html !== '') save('html', options.html, formatHtml(result))
  return isFailed(result) ? 1 : 0
}

/** Aborted by the first Ctrl-C; a second one ends the process. */
function onInterrupt(): AbortSignal {
  const ending = new AbortController()
  let firstMs = 0
  process.on('SIGINT', () => {
    if (!ending.signal.aborted) {
      firstMs = performance.now()
      ending.abort()
    } else if (performance.now() - firstMs > ECHO_MS) process.exit(130)
  })
  return ending.signal
}

/** Checks before the load begins that its report can be written. */
function checkFile(flag: string, path: string): void {
  if (path === '') return
  try {
    accessSync(dirname(path), constants.W_OK)
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) throw new Error('it is a folder')
  } catch (error) {
    throw cannotWrite(flag, path, error as Error)
  }
}

function save(flag: string, path: string, text: string): void {
  try {
    writeFileSync(path, text)
  } catch (error) {
    throw cannotWrite(flag, path, error as Error)
  }
}

function cannotWrite(flag: string, path: string, { message }: Error): ConfigurationError {
  const what = `cannot write ${path}: ${message}.`
  return new ConfigurationError({
    code: 'LOAD_FILE',
    where: `--${flag}`,
    what,
    fix: 'Name a file in a folder that exists.',
  })
}

if (import.meta.main) {
  const { stdout, stderr } = process
  process.exitCode = await main(process.argv.slice(2), { stdout, stderr, ending: onInterrupt() })
}
