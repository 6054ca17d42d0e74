/**
 * schemathesis sends the running API requests that its OpenAPI document allows, and others: each response must be one that
 * the document describes. All of its checks are on; for two of them CONFIG lists the refusals that are intended.
 */
import { spawn } from 'node:child_process'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { startFakeRelay } from '../helpers/fake-relays.ts'
import { MONITOR_LISTENS, monitorUrl, quotas, spawnMonitor } from '../helpers/monitor.ts'
import { size } from '../helpers/size.ts'
import { soonProbed } from '../helpers/slugs.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const TOOL = fileURLToPath(new URL('../.tools/schemathesis', import.meta.url)) // put there by the bootstrap of the tests
const SLUG = soonProbed('relay', 60)
const CASES_MIN = size({ small: 300, full: 10_000 })
const EXAMPLES = size({ small: 8, full: 1_000 }) // per endpoint and phase
const SEED = Number(process.env.SLUICE_SEED ?? 51)
const SEEDS = size({ small: [SEED], full: [SEED, SEED + 1, SEED + 2] })
const INTENDED =
  'intended refusals: 400, 404, 410, 422 under positive_data_acceptance; 413 under negative_data_rejection'
/**
 * A request that fits its schema may be refused: an invalid URL, or one that is not allowed (400, 422; spec 3.4), an id older
 * than what is kept (410), an unknown one (404). A schema cannot express which. One that does not fit may also be too long (413).
 */
const CONFIG = `
[checks.positive_data_acceptance]
expected-statuses = ["2xx", "400", "404", "410", "422", "429", "5xx"]
[checks.negative_data_rejection]
expected-statuses = ["400", "401", "403", "404", "405", "406", "409", "413", "415", "422", "428", "429", "5xx"]
[parameters]
"path.slug" = "${SLUG}"
`

test(
  'every response to schemathesis is in the document',
  async () => {
    const folder = makeTemporaryFolder()
    const relay = await startFakeRelay('open')
    onTestFinished(() => relay.close())
    const url = await startMonitor(folder, relay.port)
    await expect.poll(async () => (await fetch(`${url}/sites/${SLUG}`)).status, { timeout: 20_000 }).toBe(200)
    writeFileSync(join(folder, 'schemathesis.toml'), CONFIG)
    let cases = 0
    for (const seed of SEEDS) {
      const { code, output } = await schemathesis(folder, [
        'run',
        `${url}/openapi.json`,
        ...['--url', new URL(url).origin, '--max-examples', String(EXAMPLES), '--seed', String(seed)],
        ...['--no-color', '--generation-database', 'none'],
      ])
      console.log(`${INTENDED}\n${output.slice(-300)}`)
      expect(code, output).toBe(0)
      cases += Number(/Test cases:\s+([0-9,]+) generated/.exec(output)?.[1].replaceAll(',', ''))
    }
    expect(cases).toBeGreaterThanOrEqual(CASES_MIN)
  },
  size({ small: 300_000, full: 900_000 }),
)

async function startMonitor(folder: string, relayPort: number): Promise<string> {
  const catalogue = join(folder, 'catalogue.yaml')
  writeFileSync(
    catalogue,
    `version: 1\nsites:\n  - { slug: ${SLUG}, name: Relay, url: "http://relay.example.com" }\n`,
  )
  const service = spawnMonitor({ folder, rules: quotas(), hosts: { 'relay.example.com': relayPort } })
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged(MONITOR_LISTENS)
  return monitorUrl(service)
}

/** Its exit code, 0 = no failure, and its output. */
function schemathesis(cwd: string, args: string[]): Promise<{ code: number | null; output: string }> {
  const main = 'import sys; from schemathesis.cli import schemathesis; sys.exit(schemathesis())'
  const child = spawn('python3', ['-c', main, ...args], { cwd, env: { ...process.env, PYTHONPATH: TOOL } })
  onTestFinished(() => void child.kill())
  let output = ''
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding('utf8').on('data', (text) => {
      output += text
    })
  }
  return new Promise((resolve) => child.on('close', (code) => resolve({ code, output })))
}
