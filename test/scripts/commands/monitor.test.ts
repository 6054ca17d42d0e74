/** `sluice monitor`: usage, exit codes, invalid settings, standard output and error (monitor spec 8.1, "CLI"). */
import { spawnSync } from 'node:child_process'
import { readdirSync } from 'node:fs'
import { fileURLToPath } from 'node:url'
import { expect, test } from 'vitest'
import { openApi } from '../../../monitor/api/schema/openapi.ts'
import { Progress } from '../../../scripts/commands/output.ts'
import { run } from '../../../scripts/commands/run.ts'
import { captureIo, runCommand } from '../../helpers/command-io.ts'
import { eventually } from '../../helpers/eventually.ts'
import { monitorIn } from './monitor/command.ts'

const COMMANDS = [
  ...[
    'validate',
    'import',
    'export',
    'list',
    'probe',
    'screenshot',
    'recompute',
    'backup',
    'prune',
    'openapi',
  ],
  ...['optout add', 'optout remove', 'optout list', 'keys create', 'keys list', 'keys revoke'],
  ...['vantage create', 'vantage list', 'vantage revoke'],
]

test('8.1: --help is one screen and names every command', async () => {
  const { code, out, err } = await monitorIn().run('--help')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const lines = out.split('\n')
  expect(lines.length).toBeLessThanOrEqual(30)
  for (const line of lines) expect(line.length).toBeLessThanOrEqual(110)
  for (const word of COMMANDS.flatMap((name) => name.split(' '))) expect(out).toContain(word)
  expect((await monitorIn().run('keys', '--help')).out).toBe(out)
})

test('8.1: every command has its own --help, whatever the settings', async () => {
  const monitor = monitorIn({}, { PORT: 'invalid' })
  const all = await Promise.all(COMMANDS.map((name) => monitor.run(...name.split(' '), '--help')))
  all.forEach(({ code, out, err }, index) => {
    expect({ code, err }).toEqual({ code: 0, err: '' })
    expect(out).toMatch(new RegExp(`^usage: sluice monitor ${COMMANDS[index]}.*\n\n\\S.*\n`))
  })
})

// biome-ignore format: the columns are the specification
const wrong = [
  [['nope'],                                   'sluice monitor: there is no command "nope".\n\nusage: sluice monitor [<command>]'],
  [['keys'],                                   'sluice monitor: keys: a subcommand is missing.\n\nusage: sluice monitor [<command>]'],
  [['keys', 'make'],                           'sluice monitor: there is no command "keys make".\n'],
  [['list', '--jsn'],                          "sluice monitor list: Unknown option '--jsn'.\n\nusage: sluice monitor list"],
  [['list', 'one'],                            'sluice monitor list: "one" is one argument too many.\n'],
  [['backup'],                                 'sluice monitor backup: an argument is missing.\n'],
  [['import', 'sites.txt'],                    'sluice monitor import: "sites.txt" ends in none of .csv, .json, .yaml.\n'],
  [['export', '--format', 'xml'],              'sluice monitor export: --format xml is none of yaml, json, csv.\n'],
  [['probe', 'relay.example.com'],             'sluice monitor probe: "relay.example.com" is neither a slug nor a URL. Write'],
  [['probe', 'https://user:key@example.com/'], 'sluice monitor probe: "https://user:key@example.com/" is not a URL that can be'],
  [['optout', 'add', 'https://example.com'],   'sluice monitor optout add: "https://example.com" is not a host. Write a name such as'],
  [['optout', 'add', 'com'],                   'sluice monitor optout add: "com" would opt out everything below it.\n'],
  [['keys', 'create', '--tier', 'A b'],        'sluice monitor keys create: --tier "A b" is not 1 to 32 of'],
  [['keys', 'create', '--note', 'a\nb'],       'sluice monitor keys create: --note is not one line'],
  [['keys', 'create', '--expires', 'soon'],    'sluice monitor keys create: --expires "soon" is neither a date'],
  [['keys', 'create', '--expires', '2020-01-31'], 'sluice monitor keys create: --expires 2020-01-31 is in the past.\n'],
  [['keys', 'create', '--expires', '9999d'],   'sluice monitor keys create: --expires 9999d is more than 3650 days from now.\n'],
  [['keys', 'create', '--expires', '2027-02-30'], 'sluice monitor keys create: --expires "2027-02-30" is neither'],
  [['vantage', 'create', 'bj1'],               'sluice monitor vantage create: --region is cn or overseas'],
  [['vantage', 'create', 'Bj 1', '--region', 'cn'], 'sluice monitor vantage create: "Bj 1" is not 1 to 63 of'],
  [['vantage', 'create', 'bj1', '--region', 'cn', '--country', 'cn'], 'sluice monitor vantage create: --country "cn" is not two capital letters, such as DE.\n'],
] as const

for (const [args, reason] of wrong) {
  test(`8.1: invalid usage is exit code 2, reason and usage on standard error, no files: ${args.join(' ')}`, async () => {
    const monitor = monitorIn()
    const { code, out, err } = await monitor.run(...args)
    expect(err.slice(0, reason.length)).toBe(reason)
    expect(err).toContain('\n\nusage: sluice monitor ')
    expect({ code, out }).toEqual({ code: 2, out: '' })
    expect(readdirSync(monitor.folder)).toEqual([])
  })
}

test('an invalid setting is one line, an unknown one a warning', async () => {
  const bad = await monitorIn({}, { PROBE_INTERVAL_S: '5' }).run('list')
  expect(bad.code).toBe(2)
  expect(bad.err).toMatch(/^sluice: PROBE_INTERVAL_S="5" is not allowed: .*\[SETTING_INVALID\]\n$/)
  const open = await monitorIn({}, { EGRESS_TEST_ALLOW: '127.0.0.0/8', NODE_ENV: 'production' }).run('list')
  expect(open.code).toBe(2)
  expect(open.err).toMatch(/^sluice: EGRESS_TEST_ALLOW: .*\[EGRESS_SETTING\]\n$/)
  const files = { 'catalogue.yaml': 'version: 1\nsites: []\n' }
  const typo = await monitorIn(files, { MONITOR_DATA_DIRE: '/x' }).run('list')
  expect(typo.code).toBe(0)
  expect(typo.err).toBe('warning: MONITOR_DATA_DIRE is not a setting; did you mean MONITOR_DATA_DIR?\n')
})

test('8.1: openapi prints the document of the API', async () => {
  const { code, out, err } = await monitorIn().run('openapi')
  const version = JSON.parse(out).info.version
  expect(version).toMatch(/^[0-9]+\.[0-9]+\.[0-9]+/)
  expect(JSON.parse(out)).toEqual(JSON.parse(JSON.stringify(openApi({ version, isClosed: false }))))
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const settings = { PUBLIC_BASE_URL: 'https://monitor.example.org/', SUPPORT_EMAIL: 'help@example.org' }
  const named = await monitorIn({}, settings).run('openapi')
  const { servers, info } = JSON.parse(named.out)
  expect([servers[0].url, info.contact.email]).toEqual(['https://monitor.example.org', 'help@example.org'])
})

test('a closed pipe ends the command without an error', () => {
  const sluice = fileURLToPath(new URL('../../../scripts/sluice.ts', import.meta.url))
  const command = `"${process.execPath}" "${sluice}" monitor openapi | head -c 20`
  const { stdout, stderr } = spawnSync('sh', ['-c', command], { encoding: 'utf8' })
  expect({ stdout, stderr }).toEqual({ stdout: '{\n  "openapi": "3.1.', stderr: '' })
})

test('6.5: agent runs until a signal, also while its server is unreachable', async () => {
  const { env } = monitorIn(
    {},
    {
      ...{
        AGENT_SERVER: 'http://127.0.0.1:9',
        AGENT_TOKEN: `vt_${'a'.repeat(32)}`,
        CONNECTIVITY_CHECK_URLS: '',
      },
    },
  )
  const io = captureIo(env)
  const running = run(['monitor', 'agent'], io)
  await eventually(() => expect(io.err).toContain('level=warning msg="probing for http://127.0.0.1:9"\n'))
  io.sendSignal('SIGTERM')
  expect({ code: await running, out: io.out }).toEqual({ code: 0, out: '' })
})

test('sluice --help lists the monitor', async () => {
  expect((await runCommand(['--help'])).out).toMatch(/^ {2}monitor {8}\S/m)
})

test('progress is one line that is overwritten, on a terminal only', () => {
  const written: string[] = []
  const write = (text: string) => written.push(text) > 0
  const inFile = new Progress({ stderr: { isTTY: false, write } })
  inFile.print('1 of 2')
  inFile.end()
  expect(written).toEqual([])
  const inTerminal = new Progress({ stderr: { isTTY: true, write } })
  inTerminal.end()
  inTerminal.print('1 of 2')
  inTerminal.end()
  expect(written).toEqual(['\r1 of 2\x1b[K', '\r\x1b[K'])
})
