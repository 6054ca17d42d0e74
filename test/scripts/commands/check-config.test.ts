import { spawnSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeEach, describe, expect, test } from 'vitest'
import { runCommand } from '../../helpers/command-io.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

let dir = ''
beforeEach(() => {
  dir = makeTemporaryFolder()
})

function put(name: string, text: string): string {
  writeFileSync(join(dir, name), text)
  return join(dir, name)
}

function run(...args: string[]) {
  return runIn({}, ...args)
}

/** With these settings in the environment and no others. */
async function runIn(env: Record<string, string>, ...args: string[]) {
  const { code, out, err } = await runCommand(['check-config', ...args], env)
  return { code, out: toLines(out), err: toLines(err) }
}

function toLines(text: string): string[] {
  return text === '' ? [] : text.replace(/\n$/, '').split('\n')
}

describe('11.5 check-config', () => {
  test('valid files: exit code 0, and each file is printed', async () => {
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

  test('an empty directory: exit code 0', async () => expect(await run(dir)).toMatchObject({ code: 0 }))

  test('one file', async () => {
    const file = put('a.yaml', 'domain: a')
    expect((await run(file)).out).toContain(`opening config file: ${file}`)
  })

  test('no such directory', async () => {
    const { code, out } = await run('-config_dir', '/no/such')
    expect(code).toBe(1)
    expect(out[1]).toBe('loading config directory: /no/such')
    expect(out[2]).toMatch(/^error opening directory \/no\/such: ENOENT/)
    expect(out).toHaveLength(3)
  })

  test('without a directory: an error and the usage', async () => {
    for (const args of [[], ['-config_dir', ''], ['-config_dir=']]) {
      const { code, out, err } = await run(...args)
      expect(code).toBe(1)
      expect(out.slice(1)).toEqual(['loading config directory: ', 'error opening directory : none was given'])
      expect(err[0]).toContain('Usage: sluice check-config')
    }
  })

  test('files in the order of their names, dot files included', async () => {
    for (const name of ['b.yaml', 'B.yaml', 'a.txt', '.a']) put(name, `domain: ${name}`)
    const opened = ['.a', 'B.yaml', 'a.txt', 'b.yaml'].map((name) => `opening config file: ${dir}/${name}`)
    expect((await run(dir)).out.slice(2)).toEqual([...opened, 'all rate limit configs ok'])
  })

  test('a setting of the environment that cannot be read', async () => {
    put('a.yaml', 'domain: a')
    const { code, out } = await runIn({ PORT: 'eighty' }, dir)
    expect(code).toBe(1)
    expect(out.at(-1)).toMatch(/^error loading rate limit configs: .*PORT/s)
  })

  test('subdirectories are checked as the service reads them; a link to one is skipped', async () => {
    mkdirSync(join(dir, 'team', 'deep'), { recursive: true })
    const files = [
      put('b.yaml', 'domain: b'),
      put('team/a.yaml', 'domain: a'),
      put('team/deep/c.yaml', 'domain: c'),
    ]
    symlinkSync('team', join(dir, 'link'))
    const { code, out, err } = await run(dir)
    expect([code, err]).toEqual([0, [`warning: skipped a link to a directory: ${dir}/link`]])
    expect(out.slice(2, -1)).toEqual(files.map((file) => `opening config file: ${file}`))
    put('team/deep/c.yaml', 'domain: b')
    const wrong = await run(dir)
    expect(wrong.code).toBe(1)
    expect(wrong.out.at(-1)).toContain("team/deep/c.yaml: duplicate domain 'b' in config file")
  })

  test('a directory as Kubernetes mounts it: with RUNTIME_IGNOREDOTFILES, each file once', async () => {
    mkdirSync(join(dir, '..2026'))
    put('..2026/a.yaml', 'domain: a')
    symlinkSync('..2026', join(dir, '..data'))
    symlinkSync('..data/a.yaml', join(dir, 'a.yaml'))
    expect((await run(dir)).out.at(-1)).toContain("duplicate domain 'a'") // as it would be in the service
    const { code, out, err } = await runIn({ RUNTIME_IGNOREDOTFILES: 'true' }, dir)
    expect([code, err, out.slice(2, -1)]).toEqual([0, [], [`opening config file: ${dir}/a.yaml`]])
  })

  test('a pipe is refused', async () => {
    spawnSync('mkfifo', [join(dir, 'pipe.yaml')])
    const { code, out } = await run(dir)
    expect(code).toBe(1)
    expect(out.at(-1)).toContain(`error reading file ${dir}/pipe.yaml: is not a file`)
  })

  // biome-ignore format: the columns are the specification
  const wrong = [
    ['rule',    'domain: ""',  'config file cannot have empty domain'],
    ['key',     'kee: x',      "config error, unknown key 'kee' (line 1)"],
    ['syntax',  'a: [\n',      'error loading config file: yaml: line 2: '],
  ] as const
  for (const [what, yaml, text] of wrong) {
    test(`invalid file (${what}): one line and exit code 1`, async () => {
      const file = put('a.yaml', yaml)
      const { code, out } = await run(dir)
      expect(code).toBe(1)
      expect(out).toHaveLength(4)
      expect(out[3]).toContain(`error loading rate limit configs: ${file}: ${text}`)
    })
  }

  test('several files for one domain are refused unless -merge_domain_configs is set', async () => {
    put('a.yaml', 'domain: d')
    put('b.yaml', 'domain: d')
    expect((await run(dir)).out.at(-1)).toContain("b.yaml: duplicate domain 'd' in config file")
    expect((await run('-merge_domain_configs', dir)).code).toBe(0)
    expect((await run('--merge_domain_configs=false', dir)).code).toBe(1)
  })

  test('a file that is not YAML is skipped with a warning', async () => {
    put('README.md', 'hello')
    const { code, err } = await run(dir)
    expect(code).toBe(0)
    expect(err[0]).toMatch(/^warning: skipped a file .*README.md: /)
  })

  test('backup and editor files of a directory are skipped with a warning; one that is an operand is checked', async () => {
    const file = put('a.yaml', 'domain: a')
    const backup = put('a.yaml~', 'domain: a')
    expect(await run(dir)).toMatchObject({
      code: 0,
      err: [`warning: skipped a backup or editor file: ${backup}`],
    })
    expect((await run(file, backup)).out.at(-1)).toContain("a.yaml~: duplicate domain 'a' in config file")
  })

  test('invalid flags: the usage and exit code 2', async () => {
    for (const args of [
      ['-foo'],
      ['--config-dir', dir],
      ['-config_dir'],
      ['-strict=perhaps', dir],
      ['-merge_domain_configs=maybe', dir],
    ]) {
      const { code, out, err } = await run(...args)
      expect(code).toBe(2)
      expect(out).toEqual([])
      expect(err[1]).toContain('Usage: sluice check-config')
    }
  })

  test('--help', async () => {
    const { code, out } = await run('--help')
    expect(code).toBe(0)
    expect(out[0]).toContain('Usage: sluice check-config')
  })
})

describe('warnings, which envoyproxy/ratelimit does not have', () => {
  const RULES = `domain: d
descriptors:
  - key: k
    rate_limit: {unit: day}
  - {key: k, value: '*'}
`
  test('name file and line on standard error; the exit code stays 0', async () => {
    const file = put('a.yaml', RULES)
    const { code, out, err } = await run(dir)
    expect(code).toBe(0)
    expect(out.at(-1)).toBe('all rate limit configs ok')
    expect(err).toEqual([
      `warning: ${file}: line 3: requests_per_unit is missing, which means 0: every request is over the limit`,
      `warning: ${file}: line 3: 'd.k' can never match: 'k_*' matches all others first`,
    ])
  })

  test('-strict: warnings end with exit code 1', async () => {
    put('a.yaml', RULES)
    for (const flag of ['-strict', '--strict', '-strict=true']) {
      const { code, out, err } = await run(flag, dir)
      expect(code).toBe(1)
      expect(out.at(-1)).toBe('2 warnings, and -strict is set')
      expect(err).toHaveLength(2)
    }
    expect((await run('-strict=false', dir)).code).toBe(0)
    put('a.yaml', 'domain: d')
    expect(await run('-strict', dir)).toMatchObject({ code: 0, err: [] })
  })

  test('-portable: keys that envoyproxy/ratelimit refuses are warnings, wherever they stand', async () => {
    const limit = 'rate_limit: { unit: day, requests_per_unit: 3'
    const file = put(
      'a.yaml',
      `domain: a\ndescriptors:\n  - key: k\n    on_store_error: local\n    local_share: 50\n    ${limit} }\n  - key: l\n    on_store_error: deny\n    metadata: { local_share: 1 }\n    ${limit} }\n`,
    )
    expect(await run(file)).toMatchObject({ code: 0, err: [] })
    const refused = (key: string) => `${key} is a key of Sluice: envoyproxy/ratelimit refuses the file`
    expect(await run('-portable', '-strict', file)).toMatchObject({
      code: 1,
      err: [
        `warning: ${file}: line 4: ${refused('on_store_error')}`,
        `warning: ${file}: line 5: ${refused('local_share')}`,
        `warning: ${file}: line 8: ${refused('on_store_error')}`,
      ],
    })
    const portable = put('b.yaml', `domain: b\ndescriptors:\n  - key: k\n    ${limit} }\n`)
    expect(await run('-portable', portable)).toMatchObject({ code: 0, err: [] })
  })

  test('-strict: a skipped file is a warning too', async () => {
    put('README.md', 'hello')
    expect((await run('-strict', dir)).code).toBe(1)
  })

  test('warnings found before an error are printed as well', async () => {
    put('a.yaml', RULES)
    put('b.yaml', 'kee: x')
    const { code, out, err } = await run(dir)
    expect(code).toBe(1)
    expect(out.at(-1)).toContain("b.yaml: config error, unknown key 'kee' (line 1)")
    expect(err).toHaveLength(1)
  })

  test('are in the order in which files were opened', async () => {
    const early = put('b.yaml', "domain: b\ndescriptors: [{key: k}, {key: k, value: '*'}]") // found after all files are read
    const late = put('a.yaml', RULES)
    const { err } = await run(early, late)
    expect(err.map((line) => line.split(': ')[1])).toEqual([early, late, late])
  })
})

test('11.5: as a process: invalid YAML is exit code 1, without a stack trace', () => {
  const file = put('a.yaml', 'a: [\n')
  const script = join(import.meta.dirname, '../../../scripts/sluice.ts')
  const { status, stdout, stderr } = spawnSync(
    process.execPath,
    [script, 'check-config', '-config_dir', dir],
    {
      encoding: 'utf8',
    },
  )
  expect(status).toBe(1)
  expect(stderr).toBe('')
  expect(stdout.split('\n').slice(2, 4)).toEqual([
    `opening config file: ${file}`,
    expect.stringMatching(
      /^error loading rate limit configs: .*a\.yaml: error loading config file: yaml: line /,
    ),
  ])
})
