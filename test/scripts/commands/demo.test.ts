/** `npm run demo` as a process, with one day of history instead of thirty. */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { readdirSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { DEMO_SITES } from '../../../scripts/commands/demo/sites.ts'
import { eventually } from '../../helpers/eventually.ts'
import { freePort } from '../../helpers/ports.ts'

const DEMO = fileURLToPath(new URL('../../../scripts/commands/demo.ts', import.meta.url))
const WAIT_MS_MAX = 60_000
const POLL_MS = 250 // each costs a request
const listFolders = () => readdirSync(tmpdir()).filter((name) => name.startsWith('sluice-demo-'))

test('8.1: relays, their history and a monitor of them; Ctrl-C removes all files', {
  timeout: 4 * WAIT_MS_MAX,
}, async () => {
  const foldersBefore = listFolders()
  const addr = `127.0.0.1:${await freePort()}`
  const child = spawn(process.execPath, [DEMO, '--days', '1', '--addr', addr], {
    stdio: ['ignore', 'pipe', 'pipe'],
    detached: true, // a group of its own, with the monitor and the agent
  })
  onTestFinished(() => {
    try {
      process.kill(-child.pid!, 'SIGKILL')
    } catch {} // the group has ended
  })
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  await eventually(() => expect(output).toContain("Listening for the monitor on '"), WAIT_MS_MAX)
  expect(output).toContain('rolled up and evaluated')
  // biome-ignore lint/suspicious/noExplicitAny: what the test expects
  const get = async (path: string): Promise<any> => (await fetch(`http://${addr}/api/v1${path}`)).json()
  const { total, sites } = await get('/sites?include=summary')
  expect(total).toBe(DEMO_SITES.length)
  const getStatus = (slug: string) =>
    sites.find((site: { slug: string }) => site.slug === slug).summary.status
  expect([getStatus('aurora'), getStatus('fjord'), getStatus('koi')]).toEqual(['up', 'degraded', 'down'])
  const { sites: fromCn } = await get('/sites?region=cn')
  const slugsFromCn = fromCn.map(({ slug }: { slug: string }) => slug)
  expect(slugsFromCn).toContain('aurora')
  expect(slugsFromCn).not.toContain('bamboo')
  const blocked = { state: 'unreachable', blocking: 'tls' }
  expect(await get('/sites/bamboo')).toMatchObject({
    ...{ reachable_cn: false, reachable_overseas: true },
    network_profile: {
      china: blocked,
      overseas: { state: 'reachable', blocking: 'none' },
      asn: { number: 64_497, name: 'DEMO-HOSTING', country: 'DE' },
    },
  })
  const getAgent = async () =>
    (await get('/meta')).vantages.find(({ region }: { region: string }) => region === 'cn')
  const seenBefore = (await getAgent()).last_seen
  // It polls. The monitor publishes that within 5 s.
  await expect
    .poll(async () => (await getAgent()).last_seen, { timeout: WAIT_MS_MAX, interval: POLL_MS })
    .not.toBe(seenBefore)
  const { entries } = await get('/leaderboard?board=black')
  expect(entries.map(({ slug }: { slug: string }) => slug)).toContain('mirage')
  child.kill('SIGINT')
  expect((await once(child, 'exit'))[0]).toBe(0)
  expect(listFolders().filter((name) => !foldersBefore.includes(name))).toEqual([])
})
