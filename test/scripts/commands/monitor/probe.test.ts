/** `sluice monitor probe` against fake relays on 127.0.0.2, through the same egress as the prober (monitor spec 8.1, 5). */
import { readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { makeCertificates } from '../../../helpers/certificates.ts'
import { type FakeRelay, KEY, MODELS, startFakeRelay } from '../../../helpers/fake-relays.ts'
import { toCatalogue } from '../../../monitor/catalogue/catalogues.ts'
import { type MonitorCommand, monitorIn } from './command.ts'

let relay: FakeRelay

beforeAll(async () => {
  relay = await startFakeRelay('new-api')
})
afterAll(() => relay.close())

/** `relay.example.org` is the first relay; 127.0.0.2 may be probed, no other address of this machine. */
function monitorFor(
  files: Record<string, string> = {},
  settings: Record<string, string> = {},
): MonitorCommand {
  return monitorIn(files, {
    NODE_ENV: 'test',
    EGRESS_TEST_ALLOW: '127.0.0.2',
    EGRESS_TEST_HOSTS: `relay.example.org=127.0.0.2:${relay.port}`,
    ...settings,
  })
}

test('8.1: probe <url> prints one light probe as JSON; no catalogue and no database are needed', async () => {
  relay.requests.length = 0
  const { code, out, err } = await monitorFor().run('probe', 'http://relay.example.org/v1/models')
  expect({ code, err }).toEqual({ code: 0, err: '' })
  const ms = expect.any(Number)
  expect(JSON.parse(out)).toEqual({
    ...{ slug: null, url: 'http://relay.example.org', api_base: 'http://relay.example.org', vantage: 'main' },
    ...{ kind: 'light', at: expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ$/) },
    ...{ outcome: 'up', error: null, detail: null, http_status: 401, address: '127.0.0.2' },
    ...{
      latency_ms: { dns: ms, connect: ms, tls: null, ttfb: ms, total: ms },
      listing: 'key_required',
      models: null,
    },
  })
  expect(relay.requests).toEqual(['/v1/models'])
})

test('8.1: probe <slug> --full: the entry with its port and its aliases; steps on standard error', async () => {
  const site = `slug: mine\nname: Mine\nurl: http://127.0.0.2:${relay.port}\naliases: [was-mine]`
  const monitor = monitorFor({ 'catalogue.yaml': toCatalogue(site) })
  relay.requests.length = 0
  const { code, out, err } = await monitor.run('probe', 'was-mine', '--full')
  expect(code).toBe(0)
  const printed = JSON.parse(out)
  expect(printed).toMatchObject({ slug: 'mine', kind: 'full', outcome: 'up', listing: 'key_required' })
  expect(printed.claimed).toEqual([...MODELS].sort())
  expect(printed.network_profile).toMatchObject({
    ips: ['127.0.0.2'],
    tls: null,
    software: { name: 'new-api', version: 'v1.0.0' },
  })
  expect(printed.network_profile).not.toHaveProperty('china')
  expect(printed).toMatchObject({ parked: false, hygiene: { hsts: false } })
  expect(relay.requests.length).toBeGreaterThan(2)
  const steps = err.split('\n').map((line) => line.split(/ +/).slice(0, 2).join(' '))
  expect(steps.slice(0, 3)).toEqual(['resolve ok', 'connect ok', 'tls skipped'])
  expect(steps.at(-2)).toBe('summary ok')
})

test('8.1: the result does not change the exit code: 0 for a site that is down', async () => {
  const failing = await startFakeRelay('failing')
  try {
    const { code, out } = await monitorFor({}, { PROBE_PORTS: String(failing.port) }).run(
      'probe',
      `http://127.0.0.2:${failing.port}`,
    )
    expect(code).toBe(0)
    expect(JSON.parse(out)).toMatchObject({ outcome: 'down', error: 'http_5xx', http_status: 500 })
  } finally {
    await failing.close()
  }
})

test('8.1: PROBE_SLOW_MS and VANTAGE_NAME apply as in the monitor', async () => {
  const slow = await startFakeRelay('slow', { delayMs: 60 })
  try {
    const settings = { PROBE_PORTS: String(slow.port), PROBE_SLOW_MS: '50', VANTAGE_NAME: 'fra1' }
    const { out } = await monitorFor({}, settings).run('probe', `http://127.0.0.2:${slow.port}`)
    expect(JSON.parse(out)).toMatchObject({
      outcome: 'degraded',
      error: 'slow',
      vantage: 'fra1',
      models: MODELS,
    })
  } finally {
    await slow.close()
  }
})

test('5: a target that is not allowed is not probed, and the reason is printed', async () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['http://10.0.0.1/',                     'must not be probed (reserved). Only public addresses can be probed.'],
    ['http://127.0.0.1/',                    'must not be probed (own).'],
    ['http://169.254.169.254/latest',        'must not be probed (reserved).'],
    ['http://router.lan/',                   'must not be probed (name).'],
    [`http://127.0.0.2:${relay.port}/`,      'must not be probed (port). Add the port to PROBE_PORTS, or probe it by its slug'],
    ['http://www.never.example.com/',        'must not be probed (opted out). Its operator opted out'],
  ] as const
  const monitor = monitorFor({ 'optout.yaml': 'version: 1\nhosts: [never.example.com]\n' })
  const all = await Promise.all(cases.map(([url]) => monitor.run('probe', url)))
  all.forEach(({ code, out, err }, index) => {
    expect({ code, out }).toEqual({ code: 1, out: '' })
    expect(err).toContain(`: ${cases[index][1]}`)
    expect(err).toMatch(/\[TARGET_NOT_ALLOWED\]\n$/)
  })
})

test('5: nothing is probed while the opt-out list is invalid', async () => {
  const monitor = monitorFor({ 'optout.yaml': 'hosts: []\n' })
  relay.requests.length = 0
  const { code, out, err } = await monitor.run('probe', 'http://relay.example.org')
  expect({ code, out }).toEqual({ code: 1, out: '' })
  expect(err).toMatch(/^optout\.yaml:1: is not a list of hosts\./)
  expect(relay.requests).toEqual([])
})

test('8.1: an unknown slug', async () => {
  const { code, err } = await monitorFor({ 'catalogue.yaml': 'version: 1\nsites: []\n' }).run(
    'probe',
    'unknown',
  )
  expect(code).toBe(1)
  expect(err).toMatch(
    /catalogue\.yaml: there is no site "unknown"\. sluice monitor list shows all; .*\[SITE_UNKNOWN\]\n$/,
  )
})

test("8.1: as a process: probe --full sends the entry's key, which is never printed; a key that cannot be read is a note", async () => {
  const certificates = await makeCertificates('IP:127.0.0.2')
  const [cert, key] = [certificates.cert, certificates.key].map((path) => readFileSync(path))
  const keyed = await startFakeRelay('new-api', { tls: { cert, key } })
  try {
    const site = `slug: keyed\nname: Keyed\nurl: https://127.0.0.2:${keyed.port}\nkey_file: keyed.key`
    const settings = { NODE_EXTRA_CA_CERTS: certificates.ca } // Node reads it when a process starts
    const monitor = monitorFor({ 'catalogue.yaml': toCatalogue(site) }, settings)
    const without = await monitor.spawn('probe', 'keyed', '--full')
    expect(without.code).toBe(0)
    expect(without.err).toMatch(/^note: probed without its key: ENOENT: .*keyed\.key/)
    expect(JSON.parse(without.out)).toMatchObject({ models: null, network_profile: { tls: { valid: true } } })
    writeFileSync(join(monitor.folder, 'keyed.key'), `${KEY}\n`)
    const withKey = await monitor.spawn('probe', 'keyed', '--full')
    expect(withKey.err).not.toContain('note:')
    expect(JSON.parse(withKey.out)).toMatchObject({ outcome: 'up', models: MODELS })
    expect(withKey.out + withKey.err).not.toContain(KEY)
  } finally {
    await keyed.close()
    await certificates.remove()
  }
})
