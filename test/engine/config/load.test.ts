import { chmodSync, existsSync, mkdirSync, rmSync, symlinkSync, truncateSync, writeFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { MessageChannel, receiveMessageOnPort } from 'node:worker_threads'
import { Piscina } from 'piscina'
import { beforeEach, describe, expect, test } from 'vitest'
import type { RuleTree } from '../../../engine/config/files.ts'
import { readRuleFiles } from '../../../engine/config/files.ts'
import type { LoadResult } from '../../../engine/config/load.ts'
import { loadRules } from '../../../engine/config/load.ts'
import { Trie } from '../../../engine/match/trie.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'

let root = ''
beforeEach(() => {
  root = makeTemporaryFolder()
})

function put(path: string, text = `domain: ${path}`): void {
  mkdirSync(dirname(join(root, path)), { recursive: true })
  writeFileSync(join(root, path), text)
}

function tree(given: Partial<RuleTree> = {}): RuleTree {
  return {
    root,
    subdirectory: 'sub',
    appDirectory: 'config',
    isDotIgnored: false,
    isRootWatched: true,
    ...given,
  }
}

function namesIn(given: Partial<RuleTree> = {}): string[] {
  return readRuleFiles(tree(given)).files.map(({ name }) => name)
}

describe('8.4 which files', () => {
  test('8.4#1-2: watch root on: keys below the subdirectory that open with the app directory', () => {
    for (const path of ['config/b.yaml', 'config/a/c.yaml', 'config.x', 'configs/no.yaml', 'other/no.yaml']) {
      put(`sub/${path}`)
    }
    expect(namesIn()).toEqual(['config.a.c.yaml', 'config.b.yaml', 'config.x'])
  })
  test('an app directory with a dot may be two directories', () => {
    put('sub/a/b/x.yaml')
    expect(namesIn({ appDirectory: 'a.b' })).toEqual(['a.b.x.yaml'])
  })
  test('8.4#1: watch root off: everything in the app directory', () => {
    put('sub/config/b.yaml')
    put('sub/config/a/c.yaml')
    put('sub/other/no.yaml')
    expect(namesIn({ isRootWatched: false })).toEqual(['a.c.yaml', 'b.yaml'])
  })
  test('8.4#7 12#10: an empty subdirectory is the root', () => {
    put('config/a.yaml')
    expect(namesIn({ subdirectory: '' })).toEqual(['config.a.yaml'])
    expect(namesIn({ subdirectory: '', isRootWatched: false })).toEqual(['a.yaml'])
  })
  test('sorted by name', () => {
    for (const name of ['b', 'a.b', 'B', 'a/a']) put(`sub/config/x${name}`)
    expect(namesIn()).toEqual(['config.xB', 'config.xa.a', 'config.xa.b', 'config.xb'])
  })
  test('8.4#3: dot files', () => {
    for (const path of ['.a.yaml', '.d/b.yaml', 'c.yaml']) put(`sub/config/${path}`)
    expect(namesIn()).toEqual(['config..a.yaml', 'config..d.b.yaml', 'config.c.yaml'])
    expect(namesIn({ isDotIgnored: true })).toEqual(['config.c.yaml'])
  })
  test('a config map of Kubernetes: files link to ..data, which links to a directory', () => {
    put('config/..2026_01/a.yaml')
    symlinkSync('..2026_01', join(root, 'config/..data'))
    symlinkSync('..data/a.yaml', join(root, 'config/a.yaml'))
    const given = { subdirectory: '', isRootWatched: false, isDotIgnored: true }
    expect(readRuleFiles(tree(given))).toMatchObject({ files: [{ name: 'a.yaml' }], warnings: [] })
  })
  test('8.4#1 8.4#4: a root that is a link is followed, a linked directory below it is not', () => {
    put('v1/config/a.yaml')
    symlinkSync('v1', join(root, 'current'))
    symlinkSync('.', join(root, 'v1/config/loop'))
    const read = readRuleFiles(tree({ root: join(root, 'current'), subdirectory: '' }))
    expect(read.files.map(({ name }) => name)).toEqual(['config.a.yaml'])
    const path = join(root, 'current/config/loop')
    expect(read).toMatchObject({
      failuresCount: 1,
      warnings: [`runtime: error reading ${path}: is a directory`],
    })
  })
  test('a file that was removed after it was listed is a warning', (context) => {
    if (!existsSync('/proc/self/fd')) return context.skip('needs /proc/self/fd (Linux)')
    // A listing of this folder names the descriptor it was made with, which is closed by then.
    const given = { root: '/proc', subdirectory: 'self', appDirectory: 'fd', isRootWatched: false }
    const { unreadable, warnings } = readRuleFiles(tree(given))
    expect(warnings).toContainEqual(expect.stringContaining('ENOENT: no such file'))
    expect(unreadable).toBe(null)
  })
  test('a missing tree is zero files and a warning that names it', () => {
    const read = readRuleFiles(tree())
    expect(read.files).toEqual([])
    expect(read.warnings[0]).toContain(`runtime: error reading ${join(root, 'sub')}: ENOENT`)
  })
  test('8.4#7: a missing root, or a missing app directory if that is watched', () => {
    for (const given of [{ root: '' }, { appDirectory: '', isRootWatched: false }]) {
      expect(readRuleFiles(tree(given)).warnings).toEqual(['no runtime configuration. using nil loader.'])
    }
  })
  test('a file that is too big: an error as rules, a warning as anything else', () => {
    put('sub/config/core')
    truncateSync(join(root, 'sub/config/core'), 17_000_000)
    expect(readRuleFiles(tree()).warnings[0]).toContain(
      'core: file has 17000000 bytes, at most 16777216 are read',
    )
    put('sub/config/a.yaml')
    truncateSync(join(root, 'sub/config/a.yaml'), 17_000_000)
    expect(() => readRuleFiles(tree())).toThrow(
      'config.a.yaml: error loading config file: file has 17000000 bytes',
    )
  })
})

describe('8.4 backup and editor files beside the rules', () => {
  // biome-ignore format: a table
  const skipped = [
    'a.yaml~', 'a.yaml.bak', 'a.orig', 'a.yaml.rej', '.a.yaml.swp', 'a.tmp', '.#a.yaml', '#a.yaml#', 'a.yaml.rpmsave',
    'a.yaml.rpmnew', 'a.yaml.dpkg-old', 'a.yaml.dpkg-dist',
  ]
  for (const name of skipped) {
    test(`${name} is skipped with a warning`, async () => {
      put('sub/config/a.yaml', 'domain: a')
      put(`sub/config/team/${name}`, 'domain: a') // read, it would be a duplicate domain
      expect(await load()).toMatchObject({
        ok: true,
        filesCount: 1,
        failuresCount: 0,
        warnings: [`skipped a backup or editor file: config.team.${name}`],
      })
    })
  }
  // biome-ignore format: a table
  const read = ['a', 'a.swo', 'bak', 'a.bak.yaml', '#a', 'a#', 'a~b', 'a.tmpl', 'a.BAK', '.a', 'rpmsave', '#']
  for (const name of read) {
    test(`${name} is read`, () => {
      put(`sub/config/${name}`)
      expect(readRuleFiles(tree())).toMatchObject({ files: [{ name: `config.${name}` }], warnings: [] })
    })
  }
  test('a directory of such a name is read', () => {
    put('sub/config/team.bak/a.yaml')
    expect(namesIn()).toEqual(['config.team.bak.a.yaml'])
  })
  test('the lock file of an editor, a link to nothing, is skipped before it is read', () => {
    put('sub/config/a.yaml')
    symlinkSync('user@host.7:1', join(root, 'sub/config/.#a.yaml'))
    expect(readRuleFiles(tree())).toMatchObject({ failuresCount: 0, unreadable: null })
  })
  test('at most a hundred skipped files are named', () => {
    for (let i = 0; i < 103; i++) put(`sub/config/${i}~`)
    const { warnings } = readRuleFiles(tree())
    expect(warnings).toHaveLength(101)
    expect(warnings.at(-1)).toBe('skipped 3 more backup or editor files')
  })
})

describe('8.4 the lost+found of a volume mounted as the rules folder', () => {
  test.each([true, false])('is skipped with a warning, root watched: %s', async (isRootWatched) => {
    put('sub/config/a.yaml', 'domain: a')
    put('sub/config/lost+found/#1234', 'domain: a') // read, it would be a duplicate domain
    expect(await load({ isRootWatched })).toMatchObject({
      ok: true,
      filesCount: 1,
      failuresCount: 0,
      warnings: [`skipped a directory of the file system: ${isRootWatched ? 'config.' : ''}lost+found`],
    })
  })
  test('outside of the rules folder it causes no warning', () => {
    put('sub/config/a.yaml')
    put('sub/lost+found/a.yaml')
    expect(readRuleFiles(tree())).toMatchObject({ files: [{ name: 'config.a.yaml' }], warnings: [] })
  })
  test('a file of that name is read', () => {
    put('sub/config/lost+found')
    expect(namesIn()).toEqual(['config.lost+found'])
  })
})

describe('8.4 an unreadable file fails the load', () => {
  const linkFix = 'Point the link at a file, or remove it.'
  test.each(['a.yaml', 'rules'])('%s, a link to nothing or to itself', async (name) => {
    put('sub/config/z.yaml', 'domain: z')
    const path = join(root, 'sub/config', name)
    for (const [target, code] of [
      ['gone', 'ENOENT'],
      [name, 'ELOOP'],
    ]) {
      symlinkSync(target, path)
      const result = await load()
      expect(result).toMatchObject({ ok: false, warnings: [], seenCount: 1, failuresCount: 1 })
      if (result.ok) return
      expect(result.error).toMatch(new RegExp(`^config\\.${name}: cannot be read: ${code}: .*${path}`))
      expect(result.error).toContain(linkFix)
      rmSync(path)
    }
  })
  test('the first such file is the error, the others are warnings', async () => {
    for (const name of ['b.yaml', 'a.yaml']) {
      mkdirSync(join(root, 'sub/config'), { recursive: true })
      symlinkSync('gone', join(root, 'sub/config', name))
    }
    const result = await load()
    expect(result).toMatchObject({
      ok: false,
      failuresCount: 2,
      error: expect.stringMatching(/^config\.a\.yaml: /),
    })
    expect(result.warnings).toEqual([expect.stringContaining('sub/config/b.yaml: ENOENT')])
  })
  const isRoot = process.geteuid?.() === 0
  test('a file or a directory without permission to read it', async () => {
    const directory = join(root, 'sub/config')
    const readFix = 'Make it readable for the user of the service, or remove it.'
    put('sub/config/a.yaml', 'domain: a')
    put('sub/config/team/b.yaml', 'domain: b')
    chmodSync(root, 0o755)
    const errorWithout = async (path: string) => {
      chmodSync(join(directory, path), 0)
      if (isRoot) process.seteuid?.(65_534) // root may read everything
      const result = await load().finally(() => isRoot && process.seteuid?.(0))
      chmodSync(join(directory, path), 0o755)
      return result.ok ? 'loaded' : result.error
    }
    const denied = 'cannot be read: EACCES: permission denied'
    expect(await errorWithout('a.yaml')).toBe(
      `config.a.yaml: ${denied}, open '${directory}/a.yaml'. ${readFix}`,
    )
    expect(await errorWithout('team')).toBe(`config.team: ${denied}, scandir '${directory}/team'. ${readFix}`)
    expect(await load()).toMatchObject({ ok: true, filesCount: 2 })
  })
})

function load(given: Partial<RuleTree> = {}, isMerging = false): Promise<LoadResult> {
  return loadRules({ from: 'tree', tree: tree(given), isMerging })
}

describe('1.2, 1.5 a load', () => {
  const DAY = 'rate_limit: {unit: day, requests_per_unit: 3}'

  test('yields an image of all files', async () => {
    put('sub/config/a.yaml', `domain: a\ndescriptors: [{key: x, ${DAY}}]`)
    put('sub/config/b.yml', `domain: b\ndescriptors: [{key: y, value: z*, ${DAY}}]`)
    const result = await load()
    expect(result).toMatchObject({ ok: true, filesCount: 2, warnings: [], failuresCount: 0 })
    if (!result.ok) return
    expect(result.image).toMatchObject({ rulesCount: 2, domainsCount: 2 })
    expect(String(new Trie(result.image)).replaceAll(/ +3/g, ' 3')).toBe('a\n  x 3/DAY\nb\n  y_z* 3/DAY')
  })
  test('of zero files is a success without domains', async () => {
    expect(await load()).toMatchObject({ ok: true, filesCount: 0, image: { rulesCount: 0, domainsCount: 0 } })
  })
  test('syntax errors of any file are reported before semantic errors', async () => {
    put('sub/config/a.yaml', 'descriptors: []')
    put('sub/config/b.yaml', 'kee: x')
    put('sub/config/c.yaml', 'domain: [')
    const error = "config.b.yaml: config error, unknown key 'kee' (line 1)"
    expect(await load()).toEqual({
      ok: false,
      error,
      warnings: [],
      seenCount: 3,
      failuresCount: 0,
    })
  })
  test('12#7: a file not named .yaml that does not parse is skipped with a warning', async () => {
    put('sub/config/README.md', 'Our *rules*: [\n')
    put('sub/config/.gitkeep', '')
    put('sub/config/rules', 'domain: d')
    const result = await load()
    expect(result).toMatchObject({ ok: true, filesCount: 1, image: { domainsCount: 1 } })
    expect(result.warnings[0]).toBe(
      'skipped a file that is not named .yaml or .yml: config..gitkeep: holds no rules',
    )
    expect(result.warnings[1]).toContain('.yml: config.README.md: error loading config file: yaml: line ')
  })
  test('12#27: merged domains, duplicates and wildcards follow the names of the files', async () => {
    put('sub/config/b.yaml', `domain: d\ndescriptors: [{key: k, value: ab*, ${DAY}}]`)
    put('sub/config/c.yaml', `domain: d\ndescriptors: [{key: k, value: abc*, ${DAY}}, {key: k, value: ab*}]`)
    put('sub/config/a.yaml', `domain: d\ndescriptors: [{key: k, value: a*, ${DAY}}]`)
    const error = "config.c.yaml: duplicate descriptor composite key 'd.k_ab*' (line 2)"
    expect(await load({}, true)).toMatchObject({ ok: false, error })
    put('sub/config/c.yaml', `domain: d\ndescriptors: [{key: k, value: abc*, ${DAY}}]`)
    const result = await load({}, true)
    if (!result.ok) throw new Error(result.error)
    expect(String(new Trie(result.image)).match(/k_\w+/g)).toEqual(['k_a', 'k_ab', 'k_abc'])
  })
  test('a file not named .yaml that parses but is not valid is an error', async () => {
    put('sub/config/rules', 'descriptors: [{key: a}]')
    expect(await load()).toMatchObject({
      ok: false,
      error: 'config.rules: config file cannot have empty domain',
    })
  })
  test('drafts of xDS are loaded in the same way, without lines', async () => {
    const drafts = [{ file: 'resource', domain: '', nodes: [] }]
    const result = await loadRules({ from: 'drafts', drafts, isMerging: false })
    expect(result).toMatchObject({ ok: false, error: 'resource: config file cannot have empty domain' })
  })
  test('in a job, the image is shared memory', async () => {
    put('sub/config/a.yaml', `domain: a\ndescriptors: [{key: x, ${DAY}}]`)
    const filename = new URL('../../../engine/config/load-job.ts', import.meta.url).href
    const pool = new Piscina({ filename, maxThreads: 1 })
    const { port1, port2: port } = new MessageChannel()
    const task = { from: 'tree', tree: tree(), isMerging: false }
    const made = await pool.run({ task, port }, { transferList: [port] })
    const result: LoadResult = receiveMessageOnPort(port1)?.message
    port1.close()
    await pool.close()
    expect(made).toEqual({ warnings: [], contentHash: expect.stringMatching(/^.{44}$/) })
    expect(result).toMatchObject({ ok: true, filesCount: 1 })
    if (!result.ok) return
    expect(result.image.memory).toBeInstanceOf(SharedArrayBuffer)
    expect(String(new Trie(result.image))).toContain('3/DAY')
  })
})

test('the examples load, with the rules they document', async () => {
  const examples = join(import.meta.dirname, '../../../examples')
  const result = await load({ root: examples, subdirectory: '' })
  if (!result.ok) throw new Error(result.error)
  expect(`\n${new Trie(result.image)}\n`).toBe(`
envoy
  generic_key_slow      3/MINUTE
  remote_address        100/SECOND
example
  user                  5/MINUTE
  user_admin            unlimited
  plan_free
    path                10/HOUR
  path_/images/*        20/SECOND
  search                100/DAY shadow
`)
})
