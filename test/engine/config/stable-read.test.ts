/** The clock stands still, at a chosen distance from the time that the file system gave. Polls are counted. */
import { appendFileSync, renameSync, rmSync, statSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { FilesRead } from '../../../engine/config/files.ts'
import { readStableFiles } from '../../../engine/config/stable-read.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const SETTLED_MS = 50

const polls = vi.hoisted(() => ({ count: 0 }))
vi.mock('node:timers/promises', async (original) => {
  const timers = await original<typeof import('node:timers/promises')>()
  const setTimeout = (ms: number) => {
    polls.count++
    return timers.setTimeout(ms)
  }
  return { ...timers, setTimeout }
})

let root = ''
let path = ''
beforeEach(() => {
  root = makeTemporaryFolder()
  path = join(root, 'a.yaml')
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
})
afterEach(() => void vi.useRealTimers())

/** Waits until the reader has found the tree unsettled twice. */
function awaitPolls(): Promise<void> {
  const count = polls.count + 2
  return eventually(() => expect(polls.count).toBeGreaterThanOrEqual(count))
}

function read(): Promise<FilesRead> {
  const tree = { root, subdirectory: '', appDirectory: '.', isDotIgnored: true, isRootWatched: false }
  return readStableFiles(tree)
}

/** `ageMs` after the latest change of the file. */
function setClock(ageMs: number): void {
  vi.setSystemTime(Math.ceil(statSync(path).ctimeMs) + ageMs)
}

function texts({ files }: FilesRead): string[] {
  return files.map(({ bytes }) => Buffer.from(bytes).toString())
}

test('8.4: a file that is half written is read when it is complete', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(SETTLED_MS - 2)
  const reading = read()
  await awaitPolls()
  appendFileSync(path, 'descriptors: []\n')
  setClock(SETTLED_MS)
  expect(texts(await reading)).toEqual(['domain: a\ndescriptors: []\n'])
})

test('8.4: a file that is renamed into place is awaited, as is one that is missing', async () => {
  writeFileSync(join(root, '.a'), 'domain: a\n')
  symlinkSync('.a', path)
  setClock(SETTLED_MS)
  rmSync(join(root, '.a'))
  const { ctimeMs } = statSync(root)
  vi.setSystemTime(Math.ceil(ctimeMs) + SETTLED_MS)
  const reading = read()
  await awaitPolls()
  writeFileSync(join(root, '.b'), 'domain: b\n')
  renameSync(join(root, '.b'), join(root, '.a'))
  setClock(SETTLED_MS)
  expect(texts(await reading)).toEqual(['domain: b\n'])
})

test.each(['nowhere', 'a.yaml'])(
  '8.4: a file that stays missing is a failure: a link to %s',
  async (target) => {
    symlinkSync(target, path)
    vi.setSystemTime(Math.ceil(statSync(root).ctimeMs) + SETTLED_MS)
    const reading = read()
    vi.setSystemTime(Date.now() + SETTLED_MS)
    expect(await reading).toMatchObject({ files: [], failuresCount: 1, unreadable: { path } })
  },
)

test('8.4: a file that is written to without a pause is read as it is after 5 s', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(0)
  const reading = read()
  vi.advanceTimersByTime(5_000)
  expect((await reading).warnings).toEqual([
    'the rule files have been changing for 5000 ms without a pause: read as they are',
  ])
})

test('8.4: a file that changes while it is examined is not settled', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(-2)
  const reading = read()
  await awaitPolls()
  appendFileSync(path, 'descriptors: []\n')
  setClock(SETTLED_MS)
  expect(texts(await reading)).toEqual(['domain: a\ndescriptors: []\n'])
})

test('8.4: a change time far in the future delays nothing', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(-3_600_000)
  expect(texts(await read())).toEqual(['domain: a\n'])
})
