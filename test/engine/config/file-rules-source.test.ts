/**
 * Rules from files while their directories are moved, removed and replaced (spec 8.4), and the log lines about it. The source's
 * periods of 1 s are shortened, and jobs run in this thread, since each test starts a source.
 */
import { mkdirSync, renameSync, rmSync, symlinkSync, watch, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { afterEach, beforeEach, expect, onTestFinished, test, vi } from 'vitest'
import { FileRulesSource } from '../../../engine/config/file-rules-source.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { Totals } from '../../../engine/stats/totals.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const GATHER_MS = 100 // as in file-rules-source.ts
const PERIOD_MS = 1_000 // of its checks and retries
const SHORT_PERIOD_MS = 20

const mocked = vi.hoisted(() => ({ isRefused: (_path: string): boolean => false })) // whether the system refuses another watch

vi.mock('node:fs', async (original) => {
  const fs = await original<typeof import('node:fs')>()
  const watch = (path: string, ...rest: unknown[]) => {
    if (mocked.isRefused(path)) throw Object.assign(new Error('ENOSPC: no more watches'), { code: 'ENOSPC' })
    return (fs.watch as (...args: unknown[]) => unknown)(path, ...rest)
  }
  return { ...fs, watch }
})

/** Calls of setTimeout by delay: how many, and how many have run. Intervals are not counted. */
const timers = new Map<number, { setCount: number; runCount: number }>()

function countTimers(ms: number): { setCount: number; runCount: number } {
  const counts = timers.get(ms) ?? { setCount: 0, runCount: 0 }
  timers.set(ms, counts)
  return counts
}

beforeEach(() => {
  mocked.isRefused = () => false
  timers.clear()
  for (const name of ['setTimeout', 'setInterval'] as const) {
    const set = globalThis[name] as (run: (...args: unknown[]) => void, ms?: number) => NodeJS.Timeout
    const setCounted = (run: (...args: unknown[]) => void, ms = 0, ...args: unknown[]) => {
      const counts = name === 'setTimeout' ? countTimers(ms) : { setCount: 0, runCount: 0 }
      counts.setCount++
      return set(
        () => {
          run(...args)
          counts.runCount++
        },
        ms === PERIOD_MS ? SHORT_PERIOD_MS : ms,
      )
    }
    vi.spyOn(globalThis, name).mockImplementation(setCounted as never)
  }
})
afterEach(() => void vi.restoreAllMocks())

vi.mock('../../../engine/runtime/job-thread.ts', () => ({
  jobThread: (file: URL) => ({
    run: async (job: unknown) => (await import(file.href)).default(job),
    destroy: async () => {},
  }),
}))

const SHOP = 'domain: shop\n'

/** Starts a source that watches the root; `counts` has the number of domains of each load. */
async function startSource(root: string, env: Record<string, string> = {}) {
  const { settings } = parseSettings({ RUNTIME_ROOT: root, ...env })
  const lines: string[] = []
  const counts: number[] = []
  const totals = new Totals()
  const source = new FileRulesSource({
    settings,
    totals,
    log: (level, message) => lines.push(`${level} ${message}`),
    onRules: (rules) => counts.push(rules.domainsCount),
  })
  onTestFinished(() => source.close())
  await source.start()
  const warnings = () => lines.filter((line) => line.startsWith('warning '))
  const total = (name: string) => totals.getCounter(name)
  const attempts = () => total('runtime.load_attempts')
  return { counts, warnings, lines, total, attempts }
}

function newRoot(): string {
  return join(makeTemporaryFolder(), 'data', 'current')
}

function write(root: string): void {
  mkdirSync(join(root, 'config'), { recursive: true })
  writeFileSync(join(root, 'config', 'shop.yaml'), SHOP)
}

test('8.4, 11.1: a folder that can no longer be watched is logged once, and nothing loads until it is back', async () => {
  const root = newRoot()
  mkdirSync(root, { recursive: true })
  const { counts, warnings } = await startSource(root)
  const retries = countTimers(PERIOD_MS)
  rmSync(dirname(root), { recursive: true })
  await eventually(() => expect(warnings()).not.toEqual([]))
  await eventually(() => expect(retries.runCount).toBeGreaterThan(1))
  const logged = warnings().filter((line) => !line.includes('runtime: error reading')) // from the load that the change caused
  expect(logged).toEqual([
    expect.stringContaining(`unable to watch file (${dirname(root)}): no such directory.`),
  ])
  expect(counts.length).toBeLessThanOrEqual(2) // the first load, and that of the change
  write(root)
  await eventually(() => expect(counts.at(-1)).toBe(1))
  writeFileSync(join(root, 'config', 'mail.yaml'), 'domain: mail\n') // it is watched again
  await eventually(() => expect(counts.at(-1)).toBe(2))
})

test('8.4, 11.1: missing rules are logged once, also when the parent changes meanwhile', async () => {
  const root = newRoot()
  write(root)
  const { counts, warnings } = await startSource(root)
  renameSync(root, `${root}2`)
  await eventually(() => expect(warnings()).not.toEqual([]))
  const gathered = countTimers(GATHER_MS)
  mkdirSync(root) // still without rules
  await eventually(() => expect(gathered.runCount).toBeGreaterThan(0))
  expect(warnings()).toEqual([expect.stringContaining('is missing: its rules stay in force')])
  rmSync(root, { recursive: true })
  renameSync(`${root}2`, root)
  const before = counts.length
  await eventually(() => expect(counts.length).toBeGreaterThan(before))
  expect(counts.at(-1)).toBe(1)
})

test('8.4#5: a new link renamed over RUNTIME_ROOT loads what it points to', async () => {
  const root = newRoot()
  const versions = dirname(root)
  write(join(versions, 'v1'))
  symlinkSync('v1', root)
  const { counts } = await startSource(root)
  write(join(versions, 'v2'))
  writeFileSync(join(versions, 'v2/config/mail.yaml'), 'domain: mail\n')
  symlinkSync('v2', join(versions, 'next'))
  renameSync(join(versions, 'next'), root)
  await eventually(() => expect(counts.at(-1)).toBe(2))
})

test('8.4: a file that could not be read is loaded once it can be, without a change of the directory', async () => {
  const root = newRoot()
  write(root)
  const elsewhere = join(root, '..', '..', 'mail.yaml')
  symlinkSync(elsewhere, join(root, 'config', 'mail.yaml'))
  const { counts, lines } = await startSource(root)
  expect(lines).toEqual([expect.stringContaining('config.mail.yaml: cannot be read: ENOENT')])
  writeFileSync(elsewhere, 'domain: mail\n')
  await eventually(() => expect(counts).toEqual([2]))
})

test.each(['true', 'false'])(
  '8.4: backup and editor files load nothing, root watched: %s',
  async (watchesRoot) => {
    const root = newRoot()
    write(root)
    const folder = join(root, 'config')
    const backup = join(folder, 'shop.yaml~')
    writeFileSync(backup, SHOP)
    const { counts, warnings, attempts } = await startSource(root, { RUNTIME_WATCH_ROOT: watchesRoot })
    const gathered = countTimers(GATHER_MS)
    const events: (string | null)[] = []
    const watcher = watch(folder, (_event, name) => events.push(name))
    onTestFinished(() => watcher.close())
    const countEvents = (name: string) => events.filter((event) => event === name).length
    for (let i = 1; i <= 3; i++) {
      const before = countEvents('last.tmp')
      writeFileSync(backup, SHOP)
      writeFileSync(join(folder, '.shop.yaml.swp'), `${i}`)
      rmSync(join(folder, '.shop.yaml.swp'))
      writeFileSync(join(folder, 'last.tmp'), `${i}`)
      // Events come in the order of the changes, so the source has seen all of them.
      await eventually(() => expect(countEvents('last.tmp')).toBeGreaterThan(before))
      rmSync(join(folder, 'last.tmp'))
    }
    expect(gathered.setCount).toBe(0)
    writeFileSync(join(folder, 'mail.yaml'), 'domain: mail\n') // loaded once or twice
    await eventually(() => expect(counts.at(-1)).toBe(2))
    expect(attempts()).toBeLessThanOrEqual(3)
    expect(warnings().map((line) => line.replace('config.', ''))).toEqual([
      'warning skipped a backup or editor file: shop.yaml~', // once, whatever the number of loads
    ])
  },
)

test('8.4: a directory that is named like a backup file is read and watched', async () => {
  const root = newRoot()
  write(root)
  const { counts } = await startSource(root)
  mkdirSync(join(root, 'elsewhere'))
  writeFileSync(join(root, 'elsewhere', 'mail.yaml'), 'domain: mail\n')
  renameSync(join(root, 'elsewhere'), join(root, 'config', 'team.bak'))
  await eventually(() => expect(counts.at(-1)).toBe(2))
})

test('8.4, 8.5: a rule file that can no longer be read is a failed load; the rules in force stay', async () => {
  const root = newRoot()
  write(root)
  const { counts, lines, total } = await startSource(root)
  const path = join(root, 'config', 'mail.yaml')
  symlinkSync('mail.yaml', path) // to itself, which not even root can read
  const failed = () => lines.find((line) => line.startsWith('error '))
  await eventually(() =>
    expect(failed()).toContain(
      'error Error loading new configuration: config.mail.yaml: cannot be read: ELOOP',
    ),
  )
  expect(failed()).toContain(`'${path}'. Point the link at a file, or remove it.`)
  expect(counts).toEqual([1])
  expect(total('ratelimit.service.config_load_error')).toBeGreaterThan(0)
  expect(total('runtime.load_failures')).toBeGreaterThan(0)
  rmSync(path)
  await eventually(() => expect(counts.length).toBeGreaterThan(1))
  expect(counts.at(-1)).toBe(1)
})

test.each(['true', 'false'])(
  '8.4: rules below an entry that cannot be watched are loaded when they change, root watched: %s',
  async (watchesRoot) => {
    const root = newRoot()
    write(root)
    const team = join(root, 'config', 'team')
    mkdirSync(join(team, 'deep'), { recursive: true })
    symlinkSync('.#loop', join(root, 'config', '.#loop')) // a lock file of Emacs; points to itself
    const { counts } = await startSource(root, { RUNTIME_WATCH_ROOT: watchesRoot })
    expect(counts).toEqual([1])
    const awaitCount = (count: number) => eventually(() => expect(counts.at(-1)).toBe(count))
    writeFileSync(join(team, 'mail.yaml'), 'domain: mail\n')
    await awaitCount(2)
    writeFileSync(join(team, 'deep', 'news.yaml'), 'domain: news\n')
    await awaitCount(3)
    const later = join(team, 'later', 'still')
    mkdirSync(later, { recursive: true })
    writeFileSync(join(later, 'docs.yaml'), 'domain: docs\n')
    await awaitCount(4)
    rmSync(join(later, 'docs.yaml')) // new directories are watched, too
    await awaitCount(3)
  },
)

// biome-ignore format: a table
const REPLACED: [watchesRoot: string, moved: 'root' | 'config'][] = [
  ['true',  'root'],
  ['true',  'config'],
  ['false', 'root'],
  ['false', 'config'],
]
test.each(REPLACED)(
  '8.4: a directory that a rename puts in the place of the old one is loaded and watched, root watched: %s, %s',
  async (watchesRoot, moved) => {
    const root = newRoot()
    write(root)
    const next = join(dirname(root), 'next')
    write(next)
    writeFileSync(join(next, 'config', 'mail.yaml'), 'domain: mail\n')
    const { counts } = await startSource(root, { RUNTIME_WATCH_ROOT: watchesRoot })
    const [from, to] = moved === 'root' ? [next, root] : [join(next, 'config'), join(root, 'config')]
    renameSync(to, join(dirname(root), 'old'))
    renameSync(from, to)
    await eventually(() => expect(counts.at(-1)).toBe(2))
    writeFileSync(join(root, 'config', 'news.yaml'), 'domain: news\n')
    await eventually(() => expect(counts.at(-1)).toBe(3))
  },
)

test('8.4: a file that a link leads out of the tree to is loaded when it changes in place', async () => {
  const root = newRoot()
  write(root)
  const elsewhere = join(root, '..', 'mail.yaml')
  writeFileSync(elsewhere, '')
  mkdirSync(join(root, 'config', 'team'))
  symlinkSync(elsewhere, join(root, 'config', 'team', 'mail'))
  const { counts } = await startSource(root)
  expect(counts).toEqual([1])
  writeFileSync(elsewhere, 'domain: mail\n')
  await eventually(() => expect(counts.at(-1)).toBe(2))
})

test('8.4: a directory that the system refuses to watch is reported once, and checked instead', async () => {
  const root = newRoot()
  write(root)
  const team = join(root, 'config', 'team')
  mkdirSync(team)
  mocked.isRefused = (path) => path.includes('team')
  const { counts, warnings, attempts } = await startSource(root)
  const expected =
    'warning cannot watch all rules: ENOSPC: no more watches. They are checked every 1000 ms instead.'
  expect(warnings()).toEqual([expect.stringContaining(expected)])
  writeFileSync(join(team, 'mail.yaml'), 'domain: mail\n')
  await eventually(() => expect(counts.at(-1)).toBe(2))
  writeFileSync(join(team, 'news.yaml'), 'domain: news\n')
  await eventually(() => expect(counts.at(-1)).toBe(3))
  expect(warnings()).toHaveLength(1)
  expect(attempts()).toBeLessThanOrEqual(5) // checking is not loading
})

const UNREACHABLE = "domain: shop\ndescriptors: [{key: k}, {key: k, value: '*'}]\n"
const LINT_WARNING =
  "warning config.shop.yaml: line 2: 'shop.k' can never match: 'k_*' matches all others first"

test('8.5: lint warnings are logged once per content', async () => {
  const root = newRoot()
  write(root)
  const path = join(root, 'config', 'shop.yaml')
  writeFileSync(path, UNREACHABLE)
  const { counts, warnings } = await startSource(root)
  await eventually(() => expect(warnings()).toEqual([LINT_WARNING]))
  writeFileSync(path, UNREACHABLE)
  await eventually(() => expect(counts.length).toBeGreaterThan(1))
  writeFileSync(path, `${UNREACHABLE}# another content\n`)
  await eventually(() => expect(warnings().length).toBe(2))
  expect(warnings()).toEqual([LINT_WARNING, LINT_WARNING])
})

test('8.5: lint warnings are not logged again when a failed load is followed by the content before it', async () => {
  const root = newRoot()
  write(root)
  const path = join(root, 'config', 'shop.yaml')
  writeFileSync(path, UNREACHABLE)
  const { counts, warnings, lines } = await startSource(root)
  await eventually(() => expect(warnings()).toEqual([LINT_WARNING]))
  writeFileSync(path, 'domain: ""\n')
  const failures = () => lines.filter((line) => line.startsWith('error ')).length
  await eventually(() => expect(failures()).toBe(1))
  writeFileSync(path, UNREACHABLE)
  await eventually(() => expect(counts.length).toBeGreaterThan(1))
  writeFileSync(path, UNREACHABLE.replaceAll('key: k', 'key: j')) // warnings are logged in the order of the loads
  await eventually(() => expect(warnings().length).toBeGreaterThan(1))
  expect(warnings()[1]).toContain("'shop.j' can never match")
})

test('8.5: of many lint warnings the first 20 are logged, then the number of the rest', async () => {
  const root = newRoot()
  write(root)
  const nodes = Array.from({ length: 25 }, (_, i) => `  - {key: k${i}, unit: day}\n`).join('')
  writeFileSync(join(root, 'config', 'shop.yaml'), `domain: shop\ndescriptors:\n${nodes}`)
  const { warnings } = await startSource(root)
  await eventually(() => expect(warnings().length).toBe(21))
  expect(warnings().at(-1)).toBe(
    'warning 5 more warnings about the rules: run sluice check-config to see them',
  )
})
