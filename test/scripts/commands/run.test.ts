/** `sluice`: help, version, unknown commands; `sluice serve` as far as it opens no port. */
import { describe, expect, test } from 'vitest'
import { VERSION } from '../../../engine/runtime/version.ts'
import { runCommand } from '../../helpers/command-io.ts'

describe('sluice', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    // arguments       exit  standard output
    [['--help'],       0,    /^Sluice: .*\n\nusage: sluice <command>/],
    [['-help'],        0,    /usage: sluice <command>/],
    [['help'],         0,    /usage: sluice <command>/],
    [[],               2,    /usage: sluice <command>/],
    [['--version'],    0,    new RegExp(`^${VERSION.replaceAll('.', '\\.')}\n$`)],
    [['-v'],           0,    new RegExp(`^${VERSION.replaceAll('.', '\\.')}\n$`)],
  ] as const
  for (const [args, code, out] of cases) {
    test(`${args.join(' ') || 'without arguments'}: exit code ${code}`, async () => {
      expect(await runCommand([...args])).toEqual({ code, out: expect.stringMatching(out), err: '' })
    })
  }

  for (const name of ['nope', 'constructor', '--serve']) {
    test(`an unknown command, ${name}: exit code 2 and the usage`, async () => {
      const { code, out, err } = await runCommand([name])
      expect({ code, out }).toEqual({ code: 2, out: '' })
      expect(err).toMatch(/^sluice: there is no command ".*"\.\n\nSluice: /)
    })
  }
})

describe('sluice serve', () => {
  test('--help prints the usage and all settings', async () => {
    for (const flag of ['--help', '-help', '-h']) {
      const { code, out, err } = await runCommand(['serve', flag], { PORT: 'invalid' })
      expect({ code, err }).toEqual({ code: 0, err: '' })
      expect(out).toMatch(/^usage: sluice serve \[--example\]\n/)
      expect(out).toContain('\n  GRPC_PORT=')
    }
  })

  // biome-ignore format: the columns are the specification
  const invalid = [
    [['--exampel'],           "sluice serve: Unknown option '--exampel'."],
    [['--example=yes'],       "sluice serve: Option '--example' does not take an argument."],
    [['config'],              'sluice serve: "config" is one argument too many.'],
  ] as const
  for (const [args, reason] of invalid) {
    test(`${args.join(' ')}: exit code 2, reason and usage`, async () => {
      const { code, out, err } = await runCommand(['serve', ...args])
      expect({ code, out }).toEqual({ code: 2, out: '' })
      expect(err.startsWith(`${reason}\n\nusage: sluice serve`)).toBe(true)
    })
  }

  test('an invalid setting is one line, with LOG_FORMAT=json a line of the log', async () => {
    const text = await runCommand(['serve'], { PORT: 'eighty' })
    expect(text).toEqual({ code: 2, out: '', err: expect.stringMatching(/^sluice: PORT="eighty" .*\n$/) })
    const json = await runCommand(['serve'], { PORT: 'eighty', LOG_FORMAT: 'JSON' })
    expect({ code: json.code, out: json.out }).toEqual({ code: 2, out: '' })
    expect(JSON.parse(json.err)).toMatchObject({
      '@message': expect.stringContaining('PORT="eighty"'),
      level: 'fatal',
    })
  })
})
