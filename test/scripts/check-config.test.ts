import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, test } from 'vitest'
import { checkConfig } from '../../scripts/check-config.ts'

let dir = ''
beforeEach(() => {
  dir = mkdtempSync(join(tmpdir(), 'sluice-check-'))
})
afterEach(() => rmSync(dir, { recursive: true }))

function put(name: string, text: string): string {
  writeFileSync(join(dir, name), text)
  return join(dir, name)
}

async function run(...args: string[]) {
  const out: string[] = []
  const err: string[] = []
  const code = await checkConfig(args, { out: (line) => out.push(line), err: (line) => err.push(line) })
  return { code, out, err }
}

describe('11.5 check-config', () => {
  test('all is well', async () => {
    put('b.yaml', 'domain: b')
    put('a.yaml', 'domain: a')
    for (const args of [['-config_dir', dir], ['--config_dir', dir], [`-config_dir=${dir}`], [dir]]) {
      expect(await run(...args)).toEqual({
        code: 0,
        out: [
          'checking rate limit configs...',
          `loading config directory: ${dir}`,
          `opening config file: ${dir}/a.yaml`,
          `opening config file: ${dir}/b.yaml`,
          'all rate limit configs ok',
        ],
        err: [],
      })
    }
  })

  test('an empty directory is well', async () => expect(await run(dir)).toMatchObject({ code: 0 }))

  test('one file alone', async () => {
    const file = put('a.yaml', 'domain: a')
    expect((await run(file)).out).toContain(`opening config file: ${file}`)
  })

  test('no such directory', async () => {
    const { code, out } = await run('-config_dir', '/no/such')
    expect(code).toBe(1)
    expect(out[1]).toMatch(/^error opening directory \/no\/such: ENOENT/)
  })

  test('a directory in the directory', async () => {
    mkdirSync(join(dir, 'sub'))
    const { code, out } = await run(dir)
    expect(code).toBe(1)
    expect(out.at(-1)).toContain(`error reading file ${dir}/sub: EISDIR`)
  })

  // biome-ignore format: the columns are the specification
  const wrong = [
    ['meaning', 'domain: ""',  'config file cannot have empty domain'],
    ['a key',   'kee: x',      "config error, unknown key 'kee' (line 1)"],
    ['syntax',  'a: [\n',      'error loading config file: yaml: line 2: '],
  ] as const
  for (const [what, yaml, text] of wrong) {
    test(`an error of ${what} is one line and exit code 1`, async () => {
      const file = put('a.yaml', yaml)
      const { code, out } = await run(dir)
      expect(code).toBe(1)
      expect(out).toHaveLength(4)
      expect(out[3]).toContain(`error loading rate limit configs: ${file}: ${text}`)
    })
  }

  test('merging', async () => {
    put('a.yaml', 'domain: d')
    put('b.yaml', 'domain: d')
    expect((await run(dir)).out.at(-1)).toContain("b.yaml: duplicate domain 'd' in config file")
    expect((await run('-merge_domain_configs', dir)).code).toBe(0)
    expect((await run('--merge_domain_configs=false', dir)).code).toBe(1)
  })

  test('what is no rule file is named in a warning', async () => {
    put('README.md', 'hello')
    const { code, err } = await run(dir)
    expect(code).toBe(0)
    expect(err[0]).toMatch(/^warning: skipped a file .*README.md: /)
  })

  test('mistakes in the command: usage, exit code 2', async () => {
    for (const args of [
      ['-foo'],
      ['--config-dir', dir],
      ['-config_dir'],
      [],
      ['-merge_domain_configs=maybe', dir],
    ]) {
      const { code, out, err } = await run(...args)
      expect(code).toBe(2)
      expect(out).toEqual([])
      expect(err[0]).toContain('Usage: sluice check-config')
    }
  })

  test('help', async () => {
    const { code, out } = await run('--help')
    expect(code).toBe(0)
    expect(out[0]).toContain('Usage: sluice check-config')
  })
})
