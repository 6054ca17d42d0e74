/**
 * `sluice check-config`: checks before a rollout whether rule files load (spec 11.5).
 *
 *     $ sluice check-config -config_dir rules
 *     checking rate limit configs...
 *     loading config directory: rules
 *     opening config file: rules/shop.yaml
 *     warning: rules/shop.yaml: line 9: 'shop.user' can never match: 'user_*' matches all others first   (stderr)
 *     all rate limit configs ok
 *
 * Of a directory it checks what the service would load: files below it, and nothing behind links to directories or, with
 * RUNTIME_IGNOREDOTFILES, dot files. Backup files are skipped there, and checked when they are operands. Like
 * envoyproxy/ratelimit, it also parses the settings of the environment. Warnings, which envoyproxy/ratelimit does not have, go to
 * standard error.
 * Exit codes: 0 no errors, 1 errors in the files or settings, 2 wrong usage.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { backupWarning, listRuleFiles, type RuleFile } from '../../engine/config/files.ts'
import { type LoadResult, load } from '../../engine/config/load.ts'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import { parseSettings } from '../../engine/settings/parse.ts'
import { monitorRows } from '../../monitor/settings.ts'
import type { Io } from './io.ts'
import { note, print } from './output.ts'

const USAGE = `Usage: sluice check-config [-config_dir <directory>] [-merge_domain_configs] [-strict] [-portable] [<file or directory> ...]

  -config_dir <directory>    check every file in this directory and below
  -merge_domain_configs      several files may feed one domain, as with MERGE_DOMAIN_CONFIG=true
  -strict                    a warning ends with exit code 1 as well
  -portable                  warn of keys that envoyproxy/ratelimit refuses: on_store_error, local_share
`

interface Options {
  paths: string[]
  isMerging: boolean
  isStrict: boolean
  isPortable: boolean
  isHelp: boolean
}

/** Runs the command, returns its exit code. */
export async function checkConfig(args: string[], io: Io): Promise<number> {
  let options: Options
  try {
    options = parseFlags(args)
    if (options.isHelp) {
      io.stdout.write(USAGE)
      return 0
    }
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    io.stderr.write(`${error.message}\n${USAGE}`)
    return 2
  }
  print(io, 'checking rate limit configs...')
  const skipped: string[] = []
  const files = readAll(options.paths, { io, skipped, isDotIgnored: ignoresDots(io.env) })
  if (!files) return 1
  const { isMerging, isPortable } = options
  const { result, lint } = await load({ from: 'files', files, isMerging, isPortable })
  const warnings = [...skipped, ...result.warnings, ...(await lint())]
  for (const warning of warnings) note(io, `warning: ${warning}`)
  const problem = findProblem(result, io.env)
  if (problem) print(io, `error loading rate limit configs: ${problem}`)
  else if (options.isStrict && warnings.length > 0)
    print(io, `${warnings.length} warnings, and -strict is set`)
  else {
    print(io, 'all rate limit configs ok')
    return 0
  }
  return 1
}

/** The error that would keep the service from starting with these rules in this environment, or ''. */
function findProblem(result: LoadResult, env: NodeJS.ProcessEnv): string {
  if (!result.ok) return result.error
  try {
    parseSettings(env, monitorRows)
    return ''
  } catch (error) {
    if (!(error instanceof ConfigurationError)) throw error
    return error.message
  }
}

/** `findProblem` reports a setting that cannot be read. */
function ignoresDots(env: NodeJS.ProcessEnv): boolean {
  try {
    return parseSettings(env).settings.RUNTIME_IGNOREDOTFILES
  } catch {
    return false
  }
}

class UsageError extends Error {}

/** Flags with one dash or two, values after `=` or in the next argument, like Go's `flag` package. */
function parseFlags(args: string[]): Options {
  const options: Options = { paths: [], isMerging: false, isStrict: false, isPortable: false, isHelp: false }
  for (let i = 0; i < args.length; i++) {
    const flag = /^--?([a-z_]+)(?:=(.*))?$/s.exec(args[i])
    if (!flag) {
      if (args[i].startsWith('-')) throw new UsageError(`unknown flag: ${args[i]}`)
      options.paths.push(args[i])
      continue
    }
    const [, name, value] = flag
    if (name === 'config_dir') {
      const directory = value ?? args[++i]
      if (directory === undefined) throw new UsageError('flag needs an argument: -config_dir')
      options.paths.push(directory)
    } else if (name === 'merge_domain_configs') options.isMerging = isTrue(name, value ?? 'true')
    else if (name === 'strict') options.isStrict = isTrue(name, value ?? 'true')
    else if (name === 'portable') options.isPortable = isTrue(name, value ?? 'true')
    else if (name === 'help' || name === 'h') options.isHelp = true
    else throw new UsageError(`unknown flag: -${name}`)
  }
  if (options.paths.length === 0) options.paths.push('') // the default of envoyproxy/ratelimit, which cannot be opened
  return options
}

function isTrue(name: string, value: string): boolean {
  if (['1', 't', 'T', 'true', 'True', 'TRUE'].includes(value)) return true
  if (['0', 'f', 'F', 'false', 'False', 'FALSE'].includes(value)) return false
  throw new UsageError(`invalid boolean value "${value}" for -${name}`)
}

interface Reading {
  io: Io
  skipped: string[] // warnings about what the service would not read
  isDotIgnored: boolean
}

/** The files of all paths, or null after an error was printed. */
function readAll(paths: string[], reading: Reading): RuleFile[] | null {
  const { io, skipped } = reading
  const files: RuleFile[] = []
  for (const path of paths) {
    const names = list(path, reading)
    if (!names) return null
    for (const name of names) {
      try {
        const stat = statSync(name)
        if (stat.isDirectory()) {
          skipped.push(`skipped a link to a directory: ${name}`)
          continue
        }
        print(io, `opening config file: ${name}`)
        // A pipe or a device has no end; the service does not read them either.
        if (!stat.isFile()) throw new Error('is not a file')
        files.push({ name, bytes: readFileSync(name) })
      } catch (error) {
        print(io, `error reading file ${name}: ${errorMessage(error)}`)
        return null
      }
    }
  }
  return files
}

/** A file as it is; of a directory what the service would read, in that order. */
function list(path: string, { io, skipped, isDotIgnored }: Reading): string[] | null {
  try {
    const isFile = path !== '' && statSync(path, { throwIfNoEntry: false })?.isDirectory() === false
    if (isFile) return [path]
    print(io, `loading config directory: ${path}`)
    readdirSync(path) // throws where that is not possible
    const tree = { root: path, subdirectory: '', appDirectory: '.', isDotIgnored, isRootWatched: false }
    const { paths, backups, unreadable } = listRuleFiles(tree)
    skipped.push(...backups.map(backupWarning))
    if (unreadable) throw unreadable
    return paths
  } catch (error) {
    print(io, `error opening directory ${path}: ${path === '' ? 'none was given' : errorMessage(error)}`)
    if (path === '') io.stderr.write(USAGE)
    return null
  }
}

function errorMessage(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
