/** `npm run load`: see README.md, or --help. */
import { accessSync, constants, statSync, writeFileSync } from 'node:fs'
import { dirname } from 'node:path'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { parseOptions, usage } from './options.ts'
import { htmlReport } from './report.ts'
import { rulesFor } from './requests.ts'
import { isFailed, type Progress, run } from './run.ts'
import { progressTo, summary } from './text.ts'

const SILENT: Progress = { everyMs: 60_000, print: () => {} }
const ECHO_MS = 500 // npm passes on a Ctrl-C that came to us as well

async function main(args: string[]): Promise<number> {
  if (args.length === 0 || args.some((arg) => /^--?h(elp)?$/.test(arg))) {
    process.stdout.write(usage())
    return args.length === 0 ? 2 : 0
  }
  if (args.includes('--rules')) {
    const rest = args.filter((arg) => arg !== '--rules')
    process.stdout.write(rulesFor(parseOptions(['grpc://unused', ...rest]).domain))
    return 0
  }
  const options = parseOptions(args)
  const isQuiet = options.json === '-'
  if (!isQuiet) checkFile('json', options.json)
  checkFile('html', options.html)
  const result = await run(options, isQuiet ? SILENT : progressTo(process.stderr), interrupted())
  if (process.stderr.isTTY && !isQuiet) process.stderr.write('\r\x1b[K')
  if (isQuiet) process.stdout.write(`${JSON.stringify(result)}\n`)
  else process.stdout.write(summary(result))
  if (options.json !== '' && !isQuiet) save('json', options.json, `${JSON.stringify(result, null, 2)}\n`)
  if (options.html !== '') save('html', options.html, htmlReport(result))
  return isFailed(result) ? 1 : 0
}

/** Ctrl-C, once; a second one ends the process. */
function interrupted(): AbortSignal {
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

/** Before the load begins: a mistake should not cost the run. */
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

try {
  process.exitCode = await main(process.argv.slice(2))
} catch (error) {
  if (!(error instanceof ConfigurationError)) throw error // a bug: the stack trace is the report
  process.stderr.write(`load: ${error.message}\n`)
  process.exitCode = error.exitCode
}
