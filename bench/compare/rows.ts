/** Appends the results to a file: one JSON line per workload, with commit and machine. */
import { spawnSync } from 'node:child_process'
import { appendFileSync, mkdirSync } from 'node:fs'
import { cpus } from 'node:os'
import { dirname } from 'node:path'
import { fileURLToPath } from 'node:url'
import type { Options } from './options.ts'
import { isPinned } from './services.ts'
import type { Comparison } from './windows.ts'

export function appendRow(options: Options, comparison: Comparison): void {
  const { over, store, rounds, windowMs, keys, descriptors, deadline, given, out } = options
  const started = given === null ? { over, store } : {} // unknown for services that were running already
  const cores = cpus()
  const machine = { cpu: cores[0]?.model.trim() ?? '', cores: cores.length, node: process.version, isPinned }
  const { workload, ...measured } = comparison
  const load = { workload, keys, descriptors: Number(descriptors), deadline, rounds, windowMs, ...started }
  mkdirSync(dirname(out), { recursive: true })
  const row = { at: new Date().toISOString(), commit: readCommit(), machine, ...load, ...measured }
  appendFileSync(out, `${JSON.stringify(row, round)}\n`)
}

/** Four digits: a window of seconds measures no more. */
function round(_key: string, value: unknown): unknown {
  return typeof value === 'number' && !Number.isInteger(value) ? Number(value.toPrecision(4)) : value
}

/** Short, with a `+` when files differ from it; '' outside of a checkout. */
function readCommit(): string {
  const root = fileURLToPath(new URL('../..', import.meta.url))
  const git = (...args: string[]) =>
    spawnSync('git', ['-C', root, ...args], { encoding: 'utf8' }).stdout ?? ''
  const changed = git('status', '--porcelain', '--untracked-files=no').trim()
  return git('rev-parse', '--short', 'HEAD').trim() + (changed === '' ? '' : '+')
}
