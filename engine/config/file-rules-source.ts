/**
 * Loads rules from the configured directory at start and after each change (spec 8.4, 8.5).
 *
 *     directory changes ──► gather ──► job: read when stable, parse, validate, compile ──► onRules(image)
 *                                           └── any error ──► log, count, keep the rules in force
 *
 * Runs in the main thread, which never parses (rules-loader.ts). One load runs at a time; changes during a load cause
 * exactly one more.
 */
import { accessSync, constants, existsSync, type FSWatcher, statSync, watch } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { ConfigurationError } from '../runtime/errors.ts'
import { resolveModule } from '../runtime/module-url.ts'
import type { Settings } from '../settings/parse.ts'
import { findWatchedPaths, isBackupFile, type RuleTree } from './files.ts'
import type { RuleSource } from './load.ts'
import { RulesLoader, type RulesSource, type RulesSourceOptions } from './rules-loader.ts'
import { takeSnapshot } from './stable-read.ts'

// Editors and deployments change several files at once. Counted from the first change, so that a tree that keeps changing
// is loaded too; the job waits until it is stable (stable-read.ts).
const GATHER_MS = 100
const WATCH_ROUNDS_MAX = 10 // beyond, directories appear faster than they are watched; the next change watches them
const MISSING_RETRY_MS = 1_000 // between checks for a missing directory or an unreadable file
const REPLACED_CHECK_MS = 1_000 // renaming a directory that contains the watched one causes no event
const POLL_MS = 1_000 // while a part of the tree cannot be watched

// Errors of a path that no load can read either: the load reports it, and `awaitReadable` checks for the end of it.
const UNREADABLE_CODES = ['ENOENT', 'EACCES', 'EPERM', 'ELOOP', 'ENOTDIR', 'ENAMETOOLONG']

export class FileRulesSource implements RulesSource {
  private readonly options: RulesSourceOptions
  private readonly loader: RulesLoader<RuleSource>
  private watchers: FSWatcher[] = []
  private timer: NodeJS.Timeout | null = null
  private returnTimer: NodeJS.Timeout | null = null // checks for a missing directory
  private watchTimer: NodeJS.Timeout | null = null // retries to watch
  private readableTimer: NodeJS.Timeout | undefined // checks whether the file that failed the last load can be read
  private replacedTimer: NodeJS.Timeout | undefined // checks whether the directory was replaced
  private identity = '' // of the watched directory
  private polling: NodeJS.Timeout | undefined // while a part of the tree cannot be watched
  private reportedTrouble = '' // since watching last succeeded
  private loggedWarnings: readonly string[] = [] // of the last load
  private loading: Promise<void> | null = null
  private isStale = false
  private hasDirectory = false // of rules, when last watched
  private isClosing = false

  constructor(options: RulesSourceOptions) {
    this.options = options
    this.loader = new RulesLoader(resolveModule('./load-job.ts', import.meta.url), options)
    options.totals.add('runtime.load_failures', 0) // present from the start, for `increase()`
  }

  /** Watches, then loads. Resolves after the first load, successful or not; rejects when there is nothing to watch. */
  async start(): Promise<void> {
    this.watch()
    this.replacedTimer = setInterval(() => this.checkReplaced(), REPLACED_CHECK_MS).unref()
    await this.reload()
  }

  async close(): Promise<void> {
    this.isClosing = true
    for (const watcher of this.watchers) watcher.close()
    clearInterval(this.readableTimer)
    clearInterval(this.polling)
    clearInterval(this.replacedTimer)
    for (const timer of [this.timer, this.returnTimer, this.watchTimer]) if (timer) clearTimeout(timer)
    await this.loader.close()
  }

  /** Throws ConfigurationError. */
  private watch(): void {
    const { settings } = this.options
    for (const watcher of this.watchers) watcher.close()
    this.watchers = []
    clearInterval(this.polling)
    const rules = this.directory
    this.identity = getIdentity(rules)
    const watched = settings.RUNTIME_WATCH_ROOT ? dirname(settings.RUNTIME_ROOT) : rules
    if (!existsSync(watched)) throw unwatchable(settings, watched, MISSING)
    let unwatched: string | null
    try {
      unwatched = this.watchAll(watched, rules)
    } catch (cause) {
      throw unwatchable(settings, watched, { ...REFUSED, reason: (cause as Error).message })
    }
    if (unwatched === null) this.reportedTrouble = ''
    else this.poll(unwatched)
  }

  /** Throws if the rules directory or the parent of RUNTIME_ROOT cannot be watched. Returns what `watchBelow` returns. */
  private watchAll(watched: string, rules: string): string | null {
    const { settings } = this.options
    const isRoot = (name: string | null) => name === basename(settings.RUNTIME_ROOT)
    if (settings.RUNTIME_WATCH_ROOT) this.add(watched, isRoot)
    this.hasDirectory = existsSync(rules)
    if (!this.hasDirectory) return null
    this.add(rules, isReadIn(rules))
    return this.watchBelow()
  }

  /**
   * Watches each directory on its own: a recursive watch of Node silently skips whatever follows an entry that it cannot watch.
   * Lists again until nothing is new, since creating an entry in a directory that is not watched yet causes no event.
   * Returns why a part is not watched, for example because the system allows no more watches; null = all is watched.
   */
  private watchBelow(): string | null {
    const known = new Set<string>()
    let unwatched: string | null = null
    for (let round = 0; round < WATCH_ROUNDS_MAX; round++) {
      const paths = findWatchedPaths(toRuleTree(this.options.settings)).filter((path) => !known.has(path))
      if (paths.length === 0) break
      for (const path of paths) {
        known.add(path)
        try {
          this.add(path, isReadIn(path))
        } catch (error) {
          const { code, message } = error as NodeJS.ErrnoException
          if (!UNREADABLE_CODES.includes(code ?? '')) unwatched ??= message
        }
      }
    }
    return unwatched
  }

  private add(path: string, isRelevant: (name: string | null) => boolean): void {
    const watcher = watch(path, { persistent: false }, (_event, name) => {
      if (isRelevant(name)) this.reloadSoon()
    })
    const onError = (error: Error) => {
      this.reportTrouble(`no longer watching the rules: ${error.message}`)
      this.watchLater()
    }
    this.watchers.push(watcher.on('error', onError))
  }

  /** Polls until the next change, which tries to watch everything again. */
  private poll(why: string): void {
    this.reportTrouble(
      `cannot watch all rules: ${why}. They are checked every ${POLL_MS} ms instead. ${REFUSED.fix}`,
    )
    const before = this.takeSnapshot()
    this.polling = setInterval(() => {
      if (this.takeSnapshot() !== before) this.reloadSoon()
    }, POLL_MS).unref()
  }

  private takeSnapshot(): string {
    try {
      return takeSnapshot(toRuleTree(this.options.settings)).text
    } catch (error) {
      return (error as Error).message // too many files
    }
  }

  private get directory(): string {
    const { RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY } = this.options.settings
    return join(RUNTIME_ROOT, RUNTIME_SUBDIRECTORY, RUNTIME_APPDIRECTORY)
  }

  private reloadSoon(): void {
    this.timer ??= setTimeout(() => {
      this.timer = null
      if (this.hasDirectory && !existsSync(this.directory)) {
        this.waitForReturn()
      } else {
        this.rewatch()
        void this.reload()
      }
    }, GATHER_MS)
  }

  /** A directory on the path may be replaced by a rename, which the watches on the old directory do not see. */
  private checkReplaced(): void {
    if (this.hasDirectory && this.returnTimer === null && getIdentity(this.directory) !== this.identity)
      this.reloadSoon()
  }

  /** While the directory is missing, the rules stay in force. */
  private waitForReturn(): void {
    if (this.returnTimer) return
    this.options.log('warning', `${this.directory} is missing: its rules stay in force until it is back`)
    const timer = setInterval(() => {
      if (!existsSync(this.directory)) return
      clearInterval(timer)
      this.returnTimer = null
      this.reloadSoon()
    }, MISSING_RETRY_MS).unref()
    this.returnTimer = timer
  }

  /** After a symbolic link was swapped, the old watch is still on the old tree. */
  private rewatch(): boolean {
    try {
      this.watch()
      return true
    } catch (error) {
      this.reportTrouble((error as Error).message)
      this.watchLater()
      return false
    }
  }

  /** Reloads once watching succeeds, for the changes missed meanwhile. */
  private watchLater(): void {
    this.watchTimer ??= setTimeout(() => {
      this.watchTimer = null
      if (this.rewatch()) void this.reload()
    }, MISSING_RETRY_MS).unref()
  }

  /** Logs repeated failures with the same text once. */
  private reportTrouble(what: string): void {
    if (what === this.reportedTrouble || this.isClosing) return
    this.reportedTrouble = what
    this.options.log('warning', what)
  }

  private reload(): Promise<void> {
    this.isStale = true
    this.loading ??= this.loadUntilCurrent().finally(() => {
      this.loading = null
    })
    return this.loading
  }

  private async loadUntilCurrent(): Promise<void> {
    while (this.isStale) {
      this.isStale = false
      try {
        await this.loadOnce()
      } catch (error) {
        this.loader.refuse(error instanceof Error ? error.message : String(error))
      }
    }
  }

  private async loadOnce(): Promise<void> {
    const { settings, totals } = this.options
    const source: RuleSource = {
      from: 'tree',
      isSettling: true,
      tree: toRuleTree(settings),
      isMerging: settings.MERGE_DOMAIN_CONFIG,
      defaultPolicy: settings.STORE_ERROR_POLICY,
    }
    const result = await this.loader.run(source)
    if (this.hasDirectory && !existsSync(this.directory)) return // moved away meanwhile; no files does not mean no rules
    totals.add('runtime.load_attempts', 1)
    totals.add('runtime.load_failures', result.failuresCount)
    totals.set('runtime.num_values', result.seenCount)
    this.logWarnings(result.warnings)
    this.awaitReadable(result.unreadablePath)
    if (result.ok) this.loader.accept(result.image)
    else this.loader.refuse(result.error)
  }

  /** Permissions and the target of a link can change without an event. */
  private awaitReadable(path: string | undefined): void {
    clearInterval(this.readableTimer)
    if (path === undefined || this.isClosing || isReadable(path)) return
    const timer = setInterval(() => {
      if (!isReadable(path)) return
      clearInterval(timer)
      this.reloadSoon()
    }, MISSING_RETRY_MS).unref()
    this.readableTimer = timer
  }

  /** Logs only warnings that the last load did not have. */
  private logWarnings(warnings: readonly string[]): void {
    const logged = new Set(this.loggedWarnings)
    for (const warning of warnings) if (!logged.has(warning)) this.options.log('warning', warning)
    this.loggedWarnings = warnings
  }
}

/** Whether an entry of this directory (null = unknown) is read by loads. */
function isReadIn(directory: string): (name: string | null) => boolean {
  return (name) => name === null || !isBackupFile(join(directory, name))
}

/** Differs when another directory has the path; '' = none has. */
function getIdentity(path: string): string {
  try {
    const { dev, ino } = statSync(path)
    return `${dev}:${ino}`
  } catch {
    return ''
  }
}

function isReadable(path: string): boolean {
  try {
    accessSync(path, constants.R_OK)
    return true
  } catch {
    return false
  }
}

export function toRuleTree(settings: Settings): RuleTree {
  return {
    root: settings.RUNTIME_ROOT,
    subdirectory: settings.RUNTIME_SUBDIRECTORY,
    appDirectory: settings.RUNTIME_APPDIRECTORY,
    isRootWatched: settings.RUNTIME_WATCH_ROOT,
    isDotIgnored: settings.RUNTIME_IGNOREDOTFILES,
  }
}

interface WatchProblem {
  code: string
  reason: string
  fix: string
}

const MISSING: WatchProblem = {
  code: 'RULES_DIRECTORY_MISSING',
  reason: 'no such directory',
  fix: 'Create it, or point RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY at your rules.',
}
const REFUSED = {
  code: 'RULES_UNWATCHABLE',
  fix: 'If a system limit is reached, raise fs.inotify.max_user_instances and fs.inotify.max_user_watches.',
}

function unwatchable(
  settings: Settings,
  path: string,
  { code, reason, fix }: WatchProblem,
): ConfigurationError {
  const where = settings.RUNTIME_WATCH_ROOT ? 'RUNTIME_ROOT' : 'RUNTIME_ROOT, RUNTIME_APPDIRECTORY'
  const what = `unable to watch file (${path}): ${reason}.`
  return new ConfigurationError({ code, where, what, fix, exitCode: 2 })
}
