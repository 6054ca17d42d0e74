/**
 * Rules from files, kept current: loaded from the configured directory at start and after each change (spec 8.4, 8.5).
 *
 *     directory changes ──► gather ──► job: read in a quiet moment, parse, validate, compile ──► onRules(image)
 *                                           └── anything wrong ──► log, count, keep what is in force
 *
 * Runs in main, which never parses (rules-loader.ts). One load runs at a time; changes during a load cause exactly one
 * more.
 */
import { accessSync, constants, existsSync, type FSWatcher, watch } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { ConfigurationError } from '../runtime/errors.ts'
import { resolveModule } from '../runtime/module-url.ts'
import type { Settings } from '../settings/parse.ts'
import { findWatchedPaths, isBackupFile, type RuleTree } from './files.ts'
import type { RuleSource } from './load.ts'
import { RulesLoader, type RulesSource, type RulesSourceOptions } from './rules-loader.ts'
import { takeSnapshot } from './stable-read.ts'

// A change is rarely alone: editors and deployments write several files. Counted from the first, since a tree that is
// written to again and again would never be loaded; the job waits until nobody writes (stable-read.ts).
const GATHER_MS = 100
const WATCH_ROUNDS_MAX = 10 // beyond, directories are made faster than they are watched: the next change is soon
const MISSING_RETRY_MS = 1_000 // how often a directory that went away is looked for, and a file that cannot be read
const POLL_MS = 1_000 // while a part of the tree cannot be watched

// Of a path that no load can read either: the load says so, and `awaitReadable` looks for the end of it.
const UNREADABLE_CODES = ['ENOENT', 'EACCES', 'EPERM', 'ELOOP', 'ENOTDIR', 'ENAMETOOLONG']

export class FileRulesSource implements RulesSource {
  private readonly options: RulesSourceOptions
  private readonly loader: RulesLoader<RuleSource>
  private watchers: FSWatcher[] = []
  private timer: NodeJS.Timeout | null = null
  private looking: NodeJS.Timeout | null = null // for a directory that is gone
  private retrying: NodeJS.Timeout | null = null // to watch what could not be watched
  private polling: NodeJS.Timeout | undefined // while a part of the tree cannot be watched
  private unreadable: NodeJS.Timeout | undefined // while what failed the last load cannot be read
  private reportedTrouble = '' // since it could be watched
  private loggedWarnings: readonly string[] = [] // of the last load
  private loading: Promise<void> | null = null
  private isStale = false
  private isThere = false // the directory of rules, when last watched
  private isClosing = false

  constructor(options: RulesSourceOptions) {
    this.options = options
    this.loader = new RulesLoader(resolveModule('./load-job.ts', import.meta.url), options)
    options.totals.add('runtime.load_failures', 0) // there before the first, for `increase()`
  }

  /** Watches, then loads. Resolves after the first load, good or bad; rejects when there is nothing to watch. */
  async start(): Promise<void> {
    this.watch()
    await this.reload()
  }

  async close(): Promise<void> {
    this.isClosing = true
    for (const watcher of this.watchers) watcher.close()
    clearInterval(this.unreadable)
    clearInterval(this.polling)
    for (const timer of [this.timer, this.looking, this.retrying]) if (timer) clearTimeout(timer)
    await this.loader.close()
  }

  /** Throws OperatorError where it cannot. */
  private watch(): void {
    const { settings } = this.options
    for (const watcher of this.watchers) watcher.close()
    this.watchers = []
    clearInterval(this.polling)
    const rules = this.directory
    const watched = settings.RUNTIME_WATCH_ROOT ? dirname(settings.RUNTIME_ROOT) : rules
    if (!existsSync(watched)) throw unwatchable(settings, watched, MISSING)
    let unwatched: string | null
    try {
      unwatched = this.watchAll(watched, rules)
    } catch (cause) {
      throw unwatchable(settings, watched, { ...REFUSED, why: (cause as Error).message })
    }
    if (unwatched === null) this.reportedTrouble = ''
    else this.poll(unwatched)
  }

  /** Throws where the directory of rules, or the one that RUNTIME_ROOT is in, cannot be watched; else see `watchBelow`. */
  private watchAll(watched: string, rules: string): string | null {
    const { settings } = this.options
    const isRoot = (name: string | null) => name === basename(settings.RUNTIME_ROOT)
    if (settings.RUNTIME_WATCH_ROOT) this.add(watched, isRoot)
    this.isThere = existsSync(rules)
    if (!this.isThere) return null
    this.add(rules, isReadIn(rules))
    return this.watchBelow()
  }

  /**
   * Each directory on its own: a recursive watch of Node leaves out, without a word, whatever comes after a file that it cannot
   * watch. Lists again until nothing is new, since what is created before its directory is watched is no event.
   * Returns why a part is not watched, as where the system allows no more; null = all is.
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

  private add(path: string, isOurs: (name: string | null) => boolean): void {
    const watcher = watch(path, { persistent: false }, (_event, name) => {
      if (isOurs(name)) this.reloadSoon()
    })
    const onError = (error: Error) => {
      this.reportTrouble(`cannot watch the rules any more: ${error.message}`)
      this.watchLater()
    }
    this.watchers.push(watcher.on('error', onError))
  }

  /** Until the next change, which tries to watch all again. */
  private poll(why: string): void {
    this.reportTrouble(
      `cannot watch all rules: ${why}. They are looked at every ${POLL_MS} ms instead. ${REFUSED.fix}`,
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
      if (this.isThere && !existsSync(this.directory)) {
        this.waitForReturn()
      } else {
        this.rewatch()
        void this.reload()
      }
    }, GATHER_MS)
  }

  /** A directory that is moved away or swapped takes no rule with it. */
  private waitForReturn(): void {
    if (this.looking) return
    this.options.log('warning', `${this.directory} is gone: its rules stay in force until it is back`)
    const look = setInterval(() => {
      if (!existsSync(this.directory)) return
      clearInterval(look)
      this.looking = null
      this.reloadSoon()
    }, MISSING_RETRY_MS).unref()
    this.looking = look
  }

  /** A swapped symbolic link has left the old watch on the old tree. A missing directory may come back. */
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

  /** What has changed meanwhile is loaded then. */
  private watchLater(): void {
    this.retrying ??= setTimeout(() => {
      this.retrying = null
      if (this.rewatch()) void this.reload()
    }, MISSING_RETRY_MS).unref()
  }

  /** The same, tried again and again, is told once. */
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
    }
    const result = await this.loader.run(source)
    if (this.isThere && !existsSync(this.directory)) return // moved away meanwhile: no files do not mean no rules
    totals.add('runtime.load_attempts', 1)
    totals.add('runtime.load_failures', result.failuresCount)
    totals.set('runtime.num_values', result.seenCount)
    this.logWarnings(result.warnings)
    this.awaitReadable(result.unreadablePath)
    if (result.ok) this.loader.accept(result.image)
    else this.loader.refuse(result.error)
  }

  /** Rights of a directory, and what is behind a link, can change without an event. */
  private awaitReadable(path: string | undefined): void {
    clearInterval(this.unreadable)
    if (path === undefined || this.isClosing || isReadable(path)) return
    const look = setInterval(() => {
      if (!isReadable(path)) return
      clearInterval(look)
      this.reloadSoon()
    }, MISSING_RETRY_MS).unref()
    this.unreadable = look
  }

  /** A file that is skipped by every load is logged once. */
  private logWarnings(warnings: readonly string[]): void {
    const told = new Set(this.loggedWarnings)
    for (const warning of warnings) if (!told.has(warning)) this.options.log('warning', warning)
    this.loggedWarnings = warnings
  }
}

/** Whether an entry of this directory, or something unknown, is read by loads. */
function isReadIn(directory: string): (name: string | null) => boolean {
  return (name) => name === null || !isBackupFile(join(directory, name))
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

interface Trouble {
  code: string
  why: string
  fix: string
}

const MISSING: Trouble = {
  code: 'RULES_DIRECTORY_MISSING',
  why: 'no such directory',
  fix: 'Create it, or point RUNTIME_ROOT, RUNTIME_SUBDIRECTORY and RUNTIME_APPDIRECTORY at your rules.',
}
const REFUSED = {
  code: 'RULES_UNWATCHABLE',
  fix: 'Where the system allows no more of it, raise fs.inotify.max_user_instances and fs.inotify.max_user_watches.',
}

function unwatchable(settings: Settings, path: string, { code, why, fix }: Trouble): ConfigurationError {
  const where = settings.RUNTIME_WATCH_ROOT ? 'RUNTIME_ROOT' : 'RUNTIME_ROOT, RUNTIME_APPDIRECTORY'
  const what = `unable to watch file (${path}): ${why}.`
  return new ConfigurationError({ code, where, what, fix, exitCode: 2 })
}
