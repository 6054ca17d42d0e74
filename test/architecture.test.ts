/** ARCHITECTURE.md says where each package of the design works; here the files say so, too. */
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'

const ROOT = join(import.meta.dirname, '..')
const read = (path: string) => readFileSync(join(ROOT, path), 'utf8')

// biome-ignore format: a list
const PACKAGES = [
  'uWebSockets.js', '@grpc/grpc-js', 'protobufjs', 'ioredis', 'piscina', 'yaml', 'pino', 'prom-client', 'lru-cache',
  'tinybench', 'autocannon', 'vitest',
]

/** Package → the cells of its row. */
const rows = new Map(
  read('ARCHITECTURE.md')
    .split('\n## ')
    .find((part) => part.startsWith('Packages\n'))!
    .split('\n')
    .filter((line) => line.startsWith('| '))
    .map((line) => line.split('|').slice(1, -1))
    .map(([name, where, past]) => [name.trim(), { where, past: past.trim() }]),
)

const filesIn = (cell: string) => [...cell.matchAll(/`([\w/.-]+\.ts)`/g)].map(([, path]) => path)

test('the table has every package of the design, and each is among the dependencies', () => {
  expect([...rows.keys()].slice(1)).toEqual(PACKAGES)
  const { dependencies, devDependencies } = JSON.parse(read('package.json'))
  for (const name of PACKAGES) expect({ ...dependencies, ...devDependencies }).toHaveProperty([name])
})

test.each(PACKAGES)('%s is used where the table says, and what stands beside it is there', (name) => {
  const { where, past } = rows.get(name)!
  const users = filesIn(where)
  expect(users.length).toBeGreaterThan(0)
  const imported = new RegExp(`['/]${name.replaceAll('.', '\\.')}['/]`)
  for (const path of users) expect([path, read(path)]).toEqual([path, expect.stringMatching(imported)])
  for (const path of filesIn(past)) expect([path, existsSync(join(ROOT, path))]).toEqual([path, true])
})

test('every file it names exists', () => {
  const missing = filesIn(read('ARCHITECTURE.md')).filter(
    (path) => path.includes('/') && !existsSync(join(ROOT, path)),
  )
  expect(missing).toEqual([])
})
