/**
 * `sluice check-config`: would these rule files load? Answers before a rollout does (spec 11.5).
 *
 *     $ sluice check-config -config_dir rules
 *     checking rate limit configs...
 *     loading config directory: rules
 *     opening config file: rules/shop.yaml
 *     error loading rate limit configs: rules/shop.yaml: duplicate descriptor composite key 'shop.user' (line 7)
 *
 * As the reference, it looks at each entry of a directory and does not go down into others. Exit codes: 0 all is well,
 * 1 something is wrong with the files, 2 something is wrong with the command.
 */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { join } from 'node:path'
import type { RuleFile } from '../engine/config/files.ts'
import { loadRules } from '../engine/config/load.ts'

const USAGE = `Usage: sluice check-config [-config_dir <directory>] [-merge_domain_configs] [<file or directory> ...]

  -config_dir <directory>    check every file in this directory
  -merge_domain_configs      several files may feed one domain, as with MERGE_DOMAIN_CONFIG=true
`

interface Options {
  paths: string[]
  isMerging: boolean
  isHelp: boolean
}

interface Output {
  out(line: string): void
  err(line: string): void
}

/** Runs the command, returns its exit code. */
export async function checkConfig(args: string[], output: Output = console_): Promise<number> {
  let options: Options
  try {
    options = parse(args)
    if (options.isHelp) {
      output.out(USAGE)
      return 0
    }
    if (options.paths.length === 0) throw new UsageError('no file or directory to check')
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    output.err(`${error.message}\n${USAGE}`)
    return 2
  }
  output.out('checking rate limit configs...')
  const files = readAll(options.paths, output)
  if (!files) return 1
  const result = await loadRules({ from: 'files', files, isMerging: options.isMerging })
  for (const warning of result.warnings) output.err(`warning: ${warning}`)
  output.out(result.ok ? 'all rate limit configs ok' : `error loading rate limit configs: ${result.error}`)
  return result.ok ? 0 : 1
}

const console_: Output = {
  out: (line) => console.log(line),
  err: (line) => console.error(line),
}

class UsageError extends Error {}

/** Flags with one dash or two, values behind `=` or in the next argument, as the reference's flag library has it. */
function parse(args: string[]): Options {
  const options: Options = { paths: [], isMerging: false, isHelp: false }
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
    } else if (name === 'merge_domain_configs') options.isMerging = isTrue(value ?? 'true')
    else if (name === 'help' || name === 'h') options.isHelp = true
    else throw new UsageError(`unknown flag: -${name}`)
  }
  return options
}

function isTrue(value: string): boolean {
  if (['1', 't', 'T', 'true', 'True', 'TRUE'].includes(value)) return true
  if (['0', 'f', 'F', 'false', 'False', 'FALSE'].includes(value)) return false
  throw new UsageError(`invalid boolean value "${value}" for -merge_domain_configs`)
}

/** The files of all paths, or null after a complaint. */
function readAll(paths: string[], output: Output): RuleFile[] | null {
  const files: RuleFile[] = []
  for (const path of paths) {
    const names = list(path, output)
    if (!names) return null
    for (const name of names) {
      output.out(`opening config file: ${name}`)
      try {
        files.push({ name, bytes: readFileSync(name) })
      } catch (error) {
        output.out(`error reading file ${name}: ${messageOf(error)}`)
        return null
      }
    }
  }
  return files
}

/** A file is itself; a directory is what stands in it, by name. */
function list(path: string, output: Output): string[] | null {
  try {
    if (!statSync(path).isDirectory()) return [path]
    output.out(`loading config directory: ${path}`)
    return readdirSync(path)
      .sort()
      .map((name) => join(path, name))
  } catch (error) {
    output.out(`error opening directory ${path}: ${messageOf(error)}`)
    return null
  }
}

function messageOf(error: unknown): string {
  return error instanceof Error ? error.message : String(error)
}
