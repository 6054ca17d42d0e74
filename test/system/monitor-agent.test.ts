/**
 * An agent of another place, as an operator sets it up: a token from the command line, two processes, two regions.
 *
 *     fake relay ◄── sluice monitor agent (cn) ── results ──► AGENT_ADDR ── store ── evaluation ── api ◄── this test
 */
import { spawnSync } from 'node:child_process'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { startFakeRelay } from '../helpers/fake-relays.ts'
import { spawnService } from '../helpers/service.ts'
import { soonProbed } from '../helpers/slugs.ts'

const SLUG = soonProbed('relay', 60)
const SLUICE = fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))

test('6.5: what an agent sees is stored as its own, and makes its region reachable', {
  timeout: 90_000,
}, async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-agent-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
  const relay = await startFakeRelay('open')
  onTestFinished(() => relay.close())
  const catalogue = join(folder, 'catalogue.yaml')
  writeFileSync(
    catalogue,
    `version: 1\nsites:\n  - { slug: ${SLUG}, name: Relay, url: "http://relay.example.com", regions: [cn] }\n`,
  )
  const shared = {
    CONNECTIVITY_CHECK_URLS: '',
    EGRESS_TEST_ALLOW: '127.0.0.2',
    EGRESS_TEST_HOSTS: `relay.example.com=127.0.0.2:${relay.port}`,
    BACKEND_TYPE: 'memory',
    LOG_LEVEL: 'info',
  }
  const server = spawnService({
    args: ['monitor'],
    rules: { 'none.yaml': 'domain: none' },
    env: {
      ...shared,
      MONITOR_ADDR: '127.0.0.1:0',
      AGENT_ADDR: '127.0.0.1:0',
      MONITOR_DATA_DIR: join(folder, 'server'),
      CATALOGUE_PATH: catalogue,
      PROBE_INTERVAL_S: '60',
    },
  })
  onTestFinished(() => server.stop('SIGKILL').then(() => {}))
  await server.logged("Listening for the monitor on '")
  const token = vantage(join(folder, 'server'))
  const agents = `http://${server.address('agents')}`
  await expect.poll(() => pollStatus(agents, token), { timeout: 15_000, interval: 1_000 }).toBe(200) // or the agent waits after its first 401
  const agent = spawnService({
    args: ['monitor', 'agent'],
    env: {
      ...shared,
      AGENT_SERVER: agents,
      AGENT_TOKEN: token,
      MONITOR_DATA_DIR: join(folder, 'agent'),
    },
  })
  onTestFinished(() => agent.stop('SIGKILL').then(() => {}))
  // biome-ignore lint/suspicious/noExplicitAny: what the test expects
  const get = async (path: string): Promise<any> =>
    (await fetch(`http://${server.address('the monitor')}/api/v1${path}`)).json()
  await expect
    .poll(() => get(`/sites/${SLUG}`), { timeout: 40_000, interval: 500 })
    .toMatchObject({
      reachable_cn: true,
      reachable_overseas: false,
      network_profile: {
        china: { state: 'reachable', vantages: 1, agreeing: 1 },
        overseas: { state: 'unknown' },
      },
    })
  expect(await get('/meta')).toMatchObject({
    regions: { cn: { measured: true }, overseas: { measured: true } },
  })
  // The server is a vantage of its own, and leaves the site to others; what it is asked for it looks at.
  expect(await get('/meta')).toMatchObject({ vantages: [{ online: true }, { online: true }] })
  const submitted = await fetch(`http://${server.address('the monitor')}/api/v1/detections`, {
    method: 'POST',
    headers: { 'content-type': 'application/json' },
    body: JSON.stringify({ url: 'http://relay.example.com/' }),
  })
  const { id } = (await submitted.json()) as { id: string }
  const detection = () => get(`/detections/${id}`)
  await expect.poll(detection, { timeout: 20_000 }).toMatchObject({ status: 'done' })
  expect(await detection()).toMatchObject({
    result: { notices: expect.not.arrayContaining(['single_vantage']) },
  })
  expect((await agent.stop()).code).toBe(0)
  expect((await server.stop()).code).toBe(0)
})

async function pollStatus(agents: string, token: string): Promise<number> {
  const { status } = await fetch(`${agents}/agent/v1/poll`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ catalogue: null, clock_ms: Date.now() }),
  })
  return status
}

/** As an operator makes one, beside the running monitor; its token. */
function vantage(dataDir: string): string {
  const args = [SLUICE, 'monitor', 'vantage', 'create', 'bj1', '--region', 'cn']
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    env: { PATH: process.env.PATH, MONITOR_DATA_DIR: dataDir },
    encoding: 'utf8',
  })
  expect(stdout, stderr).toMatch(/^vt_\w+\n$/)
  return stdout.trim()
}
