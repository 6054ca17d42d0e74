/**
 * A real Envoy asks a real Sluice: the configuration of examples/envoy, with other ports.
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { freePort } from '../helpers/ports.ts'
import { startService } from '../helpers/service.ts'

const EXAMPLES = new URL('../../examples/', import.meta.url)
const ENVOY = fileURLToPath(new URL('../.tools/envoy', import.meta.url)) // put there by the bootstrap of the tests
const START_MAX_MS = 15_000

test('Envoy answers 200 up to the limit, then 429 with x-envoy-ratelimited', async () => {
  const rules = { 'envoy.yaml': readFileSync(new URL('config/envoy.yaml', EXAMPLES), 'utf8') }
  const service = await startService({ rules, env: { WORKERS: '2' } })
  const envoy = await startEnvoy(service.address('gRPC'))
  const answers: Response[] = []
  for (let i = 0; i < 5; i++) answers.push(await fetch(`${envoy}/slow`))
  expect(answers.map(({ status }) => status)).toEqual([200, 200, 200, 429, 429])
  expect(answers.map(({ headers }) => headers.get('x-envoy-ratelimited'))).toEqual([
    null,
    null,
    null,
    'true',
    'true',
  ])
  expect(answers.map(({ headers }) => headers.get('x-ratelimit-remaining'))).toEqual([
    '2',
    '1',
    '0',
    '0',
    '0',
  ])
  expect(await answers[0].text()).toBe('served\n')
  for (let i = 0; i < 5; i++) expect((await fetch(`${envoy}/fast`)).status).toBe(200)
  const stats = await service.stats()
  expect(stats['ratelimit_server.ShouldRateLimit.total_requests']).toBe(5)
  expect(stats['ratelimit.service.rate_limit.envoy.generic_key_slow.over_limit']).toBe(2)
})

/** Yields the base URL of its ingress. Ends with the test. */
async function startEnvoy(sluice: string): Promise<string> {
  const [ingress, upstream] = [await freePort(), await freePort()]
  const directory = mkdtempSync(join(tmpdir(), 'sluice-envoy-'))
  const config = readFileSync(new URL('envoy/envoy.yaml', EXAMPLES), 'utf8')
    .replaceAll('port_value: 8081', `port_value: ${sluice.split(':')[1]}`)
    .replaceAll('port_value: 10000', `port_value: ${ingress}`)
    .replaceAll('port_value: 10001', `port_value: ${upstream}`)
  writeFileSync(join(directory, 'envoy.yaml'), config)
  const args = [
    '-c',
    join(directory, 'envoy.yaml'),
    '--concurrency',
    '1',
    '--use-dynamic-base-id',
    '-l',
    'warn',
  ]
  const child = spawn(ENVOY, args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  onTestFinished(() => {
    end()
    process.off('exit', end)
    rmSync(directory, { recursive: true, force: true })
  })
  const until = Date.now() + START_MAX_MS
  const url = `http://127.0.0.1:${ingress}`
  while (
    !(await fetch(`${url}/ready`)
      .then((r) => r.ok)
      .catch(() => false))
  ) {
    if (child.exitCode !== null || Date.now() > until) throw new Error(`Envoy did not start:\n${log}`)
    await sleep(50)
  }
  return url
}
