/**
 * An agent at another place, as an operator sets it up: a token from the command line, two processes, two regions.
 *
 *     fake relay ◄── sluice monitor agent (cn) ── results ──► AGENT_ADDR ── store ── evaluation ── api ◄── this test
 *
 * The agent is stopped after its probe and started again: it sends its results with its first round, the next is 10 s later.
 */
import { spawnSync } from 'node:child_process'
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { startFakeRelay } from '../helpers/fake-relays.ts'
import { type RunningService, spawnService } from '../helpers/service.ts'
import { soonProbed } from '../helpers/slugs.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const SLUG = soonProbed('relay', 60)
const SLUICE =
  process.env.SLUICE_TEST_SCRIPT ?? fileURLToPath(new URL('../../scripts/sluice.ts', import.meta.url))
const DETECTIONS_MAX = 18 // of 20 an hour
const WAIT = { timeout: 40_000, interval: 100 }

test('6.5: the results of an agent outlive a restart, are stored as its own, and make its region reachable', {
  timeout: 90_000,
}, async () => {
  const folder = makeTemporaryFolder()
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
    EGRESS_TEST_HOSTS: ['', ...Array(DETECTIONS_MAX).keys()]
      .map((n) => `relay${n}.example.com=127.0.0.2:${relay.port}`)
      .join(),
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
  const token = createVantage(join(folder, 'server'))
  const agents = `http://${server.address('agents')}`
  // An agent that is refused with 401 would wait; so wait here until the token is known.
  await expect.poll(() => poll(agents, token), WAIT).toBe(200)
  const startAgent = (): RunningService => {
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
    return agent
  }
  const first = startAgent()
  await eventually(() => expect(readFiles(join(folder, 'agent'))).toContain(`"${SLUG}"`)) // a result is in its buffer
  expect((await first.stop()).code).toBe(0)
  const agent = startAgent()
  // biome-ignore lint/suspicious/noExplicitAny: what the test expects
  const get = async (path: string): Promise<any> =>
    (await fetch(`http://${server.address('the monitor')}/api/v1${path}`)).json()
  await expect
    .poll(() => get(`/sites/${SLUG}`), WAIT)
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
  // The server is a vantage too. It leaves the site to the agents, but runs the detections that are submitted.
  expect(await get('/meta')).toMatchObject({ vantages: [{ online: true }, { online: true }] })
  // Its prober learns every 10 s which vantages are online; until then its detections have the notice `single_vantage`.
  let notices = ['single_vantage']
  for (let i = 0; i < DETECTIONS_MAX && notices.includes('single_vantage'); i++) {
    if (i > 0) await sleep(1_000)
    const submitted = await fetch(`http://${server.address('the monitor')}/api/v1/detections`, {
      method: 'POST',
      headers: { 'content-type': 'application/json' },
      body: JSON.stringify({ url: `http://relay${i}.example.com/` }),
    })
    const { id } = (await submitted.json()) as { id: string }
    await expect.poll(() => get(`/detections/${id}`), WAIT).toMatchObject({ status: 'done' })
    notices = (await get(`/detections/${id}`)).result.notices
  }
  expect(notices).not.toContain('single_vantage')
  expect((await agent.stop()).code).toBe(0)
  expect((await server.stop()).code).toBe(0)
})

function readFiles(folder: string): string {
  return readdirSync(folder)
    .map((name) => readFileSync(join(folder, name), 'latin1'))
    .join()
}

/** Polls once as an agent does; returns the HTTP status. */
async function poll(agents: string, token: string): Promise<number> {
  const { status } = await fetch(`${agents}/agent/v1/poll`, {
    method: 'POST',
    headers: { authorization: `Bearer ${token}` },
    body: JSON.stringify({ catalogue: null, clock_ms: Date.now() }),
  })
  return status
}

/** Creates a vantage with the command, beside the running monitor. Returns its token. */
function createVantage(dataDir: string): string {
  const args = [SLUICE, 'monitor', 'vantage', 'create', 'bj1', '--region', 'cn']
  const { stdout, stderr } = spawnSync(process.execPath, args, {
    env: { PATH: process.env.PATH, MONITOR_DATA_DIR: dataDir },
    encoding: 'utf8',
  })
  expect(stdout, stderr).toMatch(/^vt_\w+\n$/)
  return stdout.trim()
}
