/** The clock stands still, at a chosen distance from the time the file system gave. */
import {
  appendFileSync,
  mkdtempSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import type { FilesRead } from '../../../engine/config/files.ts'
import { readStableFiles } from '../../../engine/config/stable-read.ts'

const SETTLED_MS = 50
const LOOKS_MS = 40 // enough for some looks, which nothing here depends on

let root = ''
let path = ''
beforeEach(() => {
  root = mkdtempSync(join(tmpdir(), 'sluice-rules-'))
  path = join(root, 'a.yaml')
  vi.useFakeTimers({ toFake: ['Date', 'performance'] })
})
afterEach(() => {
  vi.useRealTimers()
  rmSync(root, { recursive: true })
})

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

test('8.4: a file that is half written is read when it is whole', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(SETTLED_MS - 2)
  const reading = read()
  await sleep(LOOKS_MS)
  appendFileSync(path, 'descriptors: []\n')
  setClock(SETTLED_MS)
  expect(texts(await reading)).toEqual(['domain: a\ndescriptors: []\n'])
})

test('8.4: a file that is renamed into place is waited for, as is one that is missing', async () => {
  writeFileSync(join(root, '.a'), 'domain: a\n')
  symlinkSync('.a', path)
  setClock(SETTLED_MS)
  rmSync(join(root, '.a'))
  const { ctimeMs } = statSync(root)
  vi.setSystemTime(Math.ceil(ctimeMs) + SETTLED_MS)
  const reading = read()
  await sleep(LOOKS_MS)
  writeFileSync(join(root, '.b'), 'domain: b\n')
  renameSync(join(root, '.b'), join(root, '.a'))
  setClock(SETTLED_MS)
  expect(texts(await reading)).toEqual(['domain: b\n'])
})

test.each(['nowhere', 'a.yaml'])('8.4: what stays missing is read as such: a link to %s', async (target) => {
  symlinkSync(target, path)
  vi.setSystemTime(Math.ceil(statSync(root).ctimeMs) + SETTLED_MS)
  const reading = read()
  vi.setSystemTime(Date.now() + SETTLED_MS)
  expect(await reading).toMatchObject({ files: [], failuresCount: 1, unreadable: { path } })
})

test('8.4: a file that is written to without a pause is read as it is, in the end', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(0)
  const reading = read()
  vi.advanceTimersByTime(5_000)
  expect((await reading).warnings).toEqual([
    'the rule files have been changing for 5000 ms without a pause: read as they are',
  ])
})

test('8.4: a file that is written to while it is looked at is not settled', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(-2)
  const reading = read()
  await sleep(LOOKS_MS)
  appendFileSync(path, 'descriptors: []\n')
  setClock(SETTLED_MS)
  expect(texts(await reading)).toEqual(['domain: a\ndescriptors: []\n'])
})

test('8.4: a time of another clock, ahead of ours, makes nobody wait', async () => {
  writeFileSync(path, 'domain: a\n')
  setClock(-3_600_000)
  expect(texts(await read())).toEqual(['domain: a\n'])
})
