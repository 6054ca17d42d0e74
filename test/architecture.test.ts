/** Compares what ARCHITECTURE.md says about packages and files with the sources. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

// biome-ignore format: a list
const PACKAGES = [
  'uWebSockets.js', '@grpc/grpc-js', 'protobufjs', 'ioredis', 'piscina', 'yaml', 'pino', 'prom-client', 'lru-cache',
  'tinybench', 'autocannon', 'ipaddr.js', 'tldts', 're2js', 'hono', 'd3-scale', 'd3-shape', 'ajv', 'playwright-core', 'axe-core',
  'vitest',
]

/** Package → the cells of its row. */
const rows = new Map(
  read('ARCHITECTURE.md')
    .split('\n## ')
    .find((part) => part.startsWith('Packages\n'))!
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|').slice(1, -1))
    .map(([name, where, ownCode]) => [name.trim(), { where, ownCode: ownCode.trim() }]),
)

const listFiles = (cell: string) => [...cell.matchAll(/`([\w/.-]+\.ts)`/g)].map(([, path]) => path)

test('the table has every package, and each is among the dependencies', () => {
  expect([...rows.keys()].slice(1)).toEqual(PACKAGES)
  const { dependencies, devDependencies } = JSON.parse(read('package.json'))
  for (const name of PACKAGES) expect({ ...dependencies, ...devDependencies }).toHaveProperty([name])
})

test.each(PACKAGES)('%s is used where the table says, and the files named beside it exist', (name) => {
  const { where, ownCode } = rows.get(name)!
  const users = listFiles(where)
  expect(users.length).toBeGreaterThan(0)
  const imported = new RegExp(`['/]${name.replaceAll('.', '\\.')}['/]`)
  for (const path of users) expect([path, read(path)]).toEqual([path, expect.stringMatching(imported)])
  for (const path of listFiles(ownCode)) expect([path, existsSync(join(ROOT, path))]).toEqual([path, true])
})

test('every file it names exists', () => {
  const missing = listFiles(read('ARCHITECTURE.md')).filter(
    (path) => path.includes('/') && !existsSync(join(ROOT, path)),
  )
  expect(missing).toEqual([])
})
