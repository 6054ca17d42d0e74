/**
 * What is mutated, and the tests that must notice: tests that call a file in this process, since a mutant is switched on there alone.
 * Quick tests come first, because the first failure ends a mutant. Tests of the whole service are left out: they cost seconds each.
 */
import { existsSync, globSync, statSync } from 'node:fs'
import { join } from 'node:path'

/** At least this share of the mutants of every scope must be killed. */
export const KILLED_SHARE_MIN = 0.85

export interface Scope {
  name: string // a folder, or a part of one
  files: string[] // globs, relative to the root
  tests: string[] // files or folders, quick ones first
}

export interface Run {
  scope: string
  files: string[]
  mutate: string[] // the same for Stryker, where a part of a file ends in its lines
  tests: string[]
}

const STORES = 'test/engine/stores'

export const SCOPES: Scope[] = [
  {
    name: 'engine/decision',
    files: ['engine/decision/*.ts'],
    tests: [
      'test/engine/decision/window.test.ts',
      'test/engine/decision/engine-modes.test.ts',
      'test/engine/decision/engine.test.ts',
      'test/engine/decision/store-errors.test.ts',
      'test/engine/decision',
    ],
  },
  {
    name: 'engine/match',
    files: ['engine/match/*.ts'],
    tests: ['test/engine/match'],
  },
  {
    name: 'engine/stores',
    files: ['engine/stores/{breaker-log,circuit-breaker,connect-retry,over-limit-cache,store-health}.ts'],
    tests: [
      `${STORES}/circuit-breaker.test.ts`,
      `${STORES}/breaker-log.test.ts`,
      `${STORES}/connect-retry.test.ts`,
      `${STORES}/over-limit-cache.test.ts`,
      `${STORES}/store-health.test.ts`,
      'test/engine/decision/engine.test.ts',
    ],
  },
  {
    name: 'engine/stores',
    files: ['engine/stores/{batch,breakers,connection-metrics,counter}.ts'],
    tests: [
      `${STORES}/breakers.test.ts`,
      `${STORES}/counter.test.ts`,
      `${STORES}/batch.test.ts`,
      `${STORES}/memory/memory-store.test.ts`,
      'test/engine/decision/engine.test.ts',
      'test/engine/decision/store-errors.test.ts',
    ],
  },
  {
    name: 'engine/stores',
    files: ['engine/stores/tls.ts'],
    tests: [`${STORES}/memcached/tls.test.ts`, `${STORES}/redis/tls.test.ts`],
  },
  {
    name: 'engine/stores/memory',
    files: ['engine/stores/memory/*.ts'],
    tests: [`${STORES}/memory`, `${STORES}/batch.test.ts`, 'test/engine/decision/engine.test.ts'],
  },
  {
    name: 'engine/stores/redis',
    files: ['engine/stores/redis/*.ts'],
    tests: [
      `${STORES}/redis/address.test.ts`,
      `${STORES}/redis/options.test.ts`,
      `${STORES}/redis/resp.test.ts`,
      `${STORES}/redis/reply-poller.test.ts`,
      `${STORES}/redis/expiry.test.ts`,
      `${STORES}/redis/per-second.test.ts`,
      `${STORES}/redis/start.test.ts`,
      `${STORES}/redis/redis-store.test.ts`,
      `${STORES}/stores.test.ts`,
      `${STORES}/redis`,
    ],
  },
  {
    name: 'engine/stores/memcached',
    files: ['engine/stores/memcached/*.ts'],
    tests: [`${STORES}/memcached`, `${STORES}/stores.test.ts`],
  },
  {
    name: 'monitor/egress',
    files: ['monitor/egress/*.ts'],
    tests: [
      'test/monitor/egress/address.test.ts',
      'test/monitor/egress/settings.test.ts',
      'test/monitor/egress/url-policy.test.ts',
      'test/monitor/egress/ssrf.test.ts',
      'test/monitor/egress/visit.test.ts',
      'test/monitor/egress',
    ],
  },
]

/** A part of a file: `engine/match/trie.ts:120-140`. */
const LINES = /^(.+\.ts)(:\d{1,6}-\d{1,6})$/

/** The runs for the files at or below `paths`; all if there are none. A path that selects nothing is an error. */
export function selectRuns(root: string, paths: readonly string[], scopes = SCOPES): Run[] {
  const wanted = paths.map((path) => {
    const [, file = path, lines = ''] = LINES.exec(path) ?? []
    return { path, prefix: file.replace(/^\.\//, '').replace(/\/$/, ''), lines }
  })
  const found = new Set<string>()
  const runs = scopes.flatMap(({ name, files: globs, tests }) => {
    const files: string[] = []
    const mutate: string[] = []
    for (const file of globSync(globs, { cwd: root }).sort()) {
      const by = wanted.filter(({ prefix }) => file === prefix || file.startsWith(`${prefix}/`))
      if (wanted.length > 0 && by.length === 0) continue
      for (const { path } of by) found.add(path)
      files.push(file)
      mutate.push(...new Set(wanted.length === 0 ? [file] : by.map(({ lines }) => file + lines)))
    }
    return files.length === 0 ? [] : [{ scope: name, files, mutate, tests: expandTests(root, tests) }]
  })
  const missing = wanted.find(({ path }) => !found.has(path))
  if (missing !== undefined)
    throw new Error(`${missing.path} is not mutated. Use a folder or file of ${names(scopes)}.`)
  return runs
}

/** Test files in the order of the list, each once. */
function expandTests(root: string, tests: readonly string[]): string[] {
  const files = tests.flatMap((path) => {
    if (!existsSync(join(root, path)))
      throw new Error(`${path} does not exist. Correct test/mutation/scopes.ts.`)
    if (!statSync(join(root, path)).isDirectory()) return [path]
    return globSync(`${path}/**/*.test.ts`, { cwd: root }).sort()
  })
  return [...new Set(files)]
}

function names(scopes: readonly Scope[]): string {
  return [...new Set(scopes.map(({ name }) => name))].join(', ')
}
