/** A small tree without errors, and one test per error. */
import { mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { beforeEach, expect, test } from 'vitest'
import { tidy } from '../../../scripts/dev/tidy.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

const FOLDERS = ['proto', 'engine', 'monitor', 'transports', 'scripts', 'bench', 'test']
let root: string

beforeEach(() => {
  root = makeTemporaryFolder()
  for (const folder of FOLDERS) write(`${folder}/README.md`, 'One sentence.\n')
  write('proto/codec.ts', "import { Buffer } from 'node:buffer'\n")
  write('engine/match/trie.ts', "import { decode } from '../../../proto/codec.ts'\n")
  write('transports/uws.ts', "export { App } from 'uWebSockets.js'\n")
})

function write(path: string, text: string): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

test('a tree without errors', () => expect(tidy(root)).toEqual([]))

// biome-ignore format: the columns are the specification
const arrows = [
  // from a file in, to             allowed?
  ['proto',      'engine/a.ts',     false],
  ['engine',     'transports/a.ts', false],
  ['engine',     'monitor/a.ts',    false],
  ['engine',     'scripts/a.ts',    false],
  ['engine',     'test/a.ts',       false],
  ['engine',     'proto/a.ts',      true],
  ['transports', 'engine/a.ts',     true],
  ['transports', 'monitor/a.ts',    false],
  ['transports', 'scripts/a.ts',    false],
  ['monitor',    'engine/a.ts',     true],
  ['monitor',    'transports/a.ts', false],
  ['scripts',    'transports/a.ts', true],
  ['scripts',    'monitor/a.ts',    true],
  ['bench',      'engine/a.ts',     true],
  ['test',       'scripts/a.ts',    true],
] as const

for (const [from, to, isAllowed] of arrows) {
  test(`${from} ${isAllowed ? 'may' : 'must not'} import ${to}`, () => {
    write(`${from}/x.ts`, `import { a } from '../${to}'\n`)
    expect(tidy(root)).toHaveLength(isAllowed ? 0 : 1)
  })
}

// biome-ignore format: one way to write an import per line
const forms = [
  "import type { Table } from '../transports/debug.ts'",
  "import '../transports/debug.ts'",
  "export * from '../transports/debug.ts'",
  "} from '../transports/debug.ts'",
  "  const debug = await import('../transports/debug.ts')",
  "  new Worker(resolveModule('../transports/debug.ts', import.meta.url))",
]

for (const form of forms) {
  test(`an import is found in: ${form.trim()}`, () => {
    write('engine/x.ts', `// first line\n${form}\n`)
    expect(tidy(root)).toEqual([
      'engine/x.ts:2: imports transports. engine may import proto; move what both need there.',
    ])
  })
}

test('only transports/uws.ts imports uWebSockets.js', () => {
  write('monitor/x.ts', "import uws from 'uWebSockets.js'\n")
  expect(tidy(root)).toEqual([
    'monitor/x.ts:1: imports uWebSockets.js. Only transports/uws.ts may; import from there.',
  ])
})

// biome-ignore format: one way to connect per line
const outward = [
  ["import { connect } from 'node:net'",                     'node:net'],
  ["import type { Socket } from 'net'",                      'net'],
  ["} from 'node:tls'",                                      'node:tls'],
  ["import http from 'node:http'",                           'node:http'],
  ["const https = await import('node:https')",               'node:https'],
  ["const http2 = require('http2')",                         'http2'],
  ["import { request } from 'undici'",                       'undici'],
  ["export * from 'undici/index.js'",                        'undici/index.js'],
  ["import { createSocket } from 'node:dgram'",              'node:dgram'],
  ["import { resolve4 } from 'node:dns/promises'",           'node:dns/promises'],
  ["const dns = process.getBuiltinModule('node:dns')",       'node:dns'],
  ['  const response = await fetch(url)',                      'fetch'],
  ['const get = globalThis.fetch',                           'fetch'],
  ['const go = [url].map(fetch)',                            'fetch'],
  ["const socket = new WebSocket('wss://example.org')",      'WebSocket'],
  ['const events = new EventSource(url) // live',            'EventSource'],
] as const

for (const [line, what] of outward) {
  test(`monitor spec 5: only monitor/egress may write: ${line.trim()}`, () => {
    write('monitor/egress/x.ts', `${line}\n`)
    write('transports/x.ts', `${line}\n`)
    expect(tidy(root)).toEqual([])
    write('monitor/probe/x.ts', `\n${line}\n`)
    expect(tidy(root)).toEqual([
      `monitor/probe/x.ts:2: uses ${what}. Only monitor/egress/ may; connect through it.`,
    ])
  })
}

test('monitor spec 5: comments, methods and longer names are not connections', () => {
  const lines = [
    "import { egress } from '../egress/egress.ts'",
    "import { networkInterfaces } from 'node:os'",
    'await egress.fetch(url) // not the global fetch(',
    '  // fetch(url) would do',
    ' * fetch(url) would do',
    'function prefetch(url) {}',
    'this.#fetch(url)',
    "table['network'] = 'fetch'",
  ]
  write('monitor/probe/x.ts', lines.join('\n'))
  expect(tidy(root)).toEqual([])
})

test('a folder without README', () => {
  rmSync(join(root, 'bench'), { recursive: true })
  expect(tidy(root)).toEqual([
    'bench/README.md: is missing. Say in one sentence what the folder does, then list its files.',
  ])
})

test('a README longer than a screen, also in a folder further down', () => {
  write('engine/README.md', 'line\n'.repeat(30))
  write('engine/match/README.md', 'line\n'.repeat(31))
  expect(tidy(root)).toEqual([
    'engine/match/README.md: has 31 lines, 30 fit on a screen. Move the why into the files it names.',
  ])
})

test('a README names existing files: beside it, below it or from the root; patterns are ignored', () => {
  write(
    'engine/README.md',
    'One sentence.\n1 match/trie.ts  2 trie.ts  3 `proto/codec.ts`  *.lua  <x>.ts\n4 window.ts\n',
  )
  expect(tidy(root)).toEqual([
    'engine/README.md:3: names window.ts, which does not exist. Correct the name, or remove it.',
  ])
})

test('hidden folders are not read', () => {
  write('test/.tools/README.md', 'line\n'.repeat(99))
  expect(tidy(root)).toEqual([])
})

test('an exception applies to its file only', () => {
  write('engine/x.ts', "import '../monitor/a.ts'\n")
  write('engine/y.ts', "import '../monitor/a.ts'\n")
  const diagnostics = tidy(root, { 'engine/x.ts': 'moves in the next commit' })
  expect(diagnostics.map((diagnostic) => diagnostic.split(':')[0])).toEqual(['engine/y.ts'])
})
