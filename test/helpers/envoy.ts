/**
 * A real Envoy on free ports with the configuration of examples/envoy or a variant. It never outlives this process.
 *
 *     const envoy = await startEnvoy(exampleConfig().replaceAll(…))         stopped after the test
 *     const envoy = await spawnEnvoy(…)                                     outside tests: stopped by envoy.stop()
 *     await fetch(`${envoy.url}/slow`)
 *     await envoy.admin('/clusters')
 */
import { spawn } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { fileURLToPath } from 'node:url'
import { onTestFinished } from 'vitest'
import { freePort } from './ports.ts'

export interface Envoy {
  url: string // of its ingress
  pid: number
  /** The body of a path of its admin port. */
  admin(path: string): Promise<string>
  stop(): void
}

const CONFIG = new URL('../../examples/envoy/envoy.yaml', import.meta.url)
const ENVOY = fileURLToPath(new URL('../.tools/envoy', import.meta.url)) // installed by the bootstrap of the tests
const START_MS_MAX = 60_000

export function exampleConfig(): string {
  return readFileSync(CONFIG, 'utf8')
}

/** `config`: YAML without an admin port. Ports 10000 and 10001 of the example are replaced by free ones. */
export async function startEnvoy(config: string): Promise<Envoy> {
  const envoy = await spawnEnvoy(config)
  onTestFinished(() => envoy.stop())
  return envoy
}

/** The same without a test that stops it. `hasOwnSession`: as in test/helpers/redis.ts. */
export async function spawnEnvoy(config: string, hasOwnSession = false): Promise<Envoy> {
  const [ingress, upstream, admin] = [await freePort(), await freePort(), await freePort()]
  const directory = mkdtempSync(join(tmpdir(), 'sluice-envoy-'))
  const file = join(directory, 'envoy.yaml')
  const text = config
    .replaceAll('port_value: 10000', `port_value: ${ingress}`)
    .replaceAll('port_value: 10001', `port_value: ${upstream}`)
  const address = `{ socket_address: { address: 127.0.0.1, port_value: ${admin} } }`
  writeFileSync(file, `${text}\nadmin: { address: ${address} }\n`)
  const args = ['-c', file, '--concurrency', '1', '--use-dynamic-base-id', '-l', 'warn']
  const child = spawn(ENVOY, args, { stdio: ['ignore', 'ignore', 'pipe'], detached: hasOwnSession })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  const end = () => child.kill('SIGKILL')
  process.once('exit', end)
  const stop = () => {
    end()
    process.off('exit', end)
    rmSync(directory, { recursive: true, force: true })
  }
  const until = Date.now() + START_MS_MAX
  const url = `http://127.0.0.1:${ingress}`
  while (!(await isReady(`${url}/ready`))) {
    if (child.exitCode !== null || Date.now() > until) {
      stop()
      throw new Error(`Envoy did not start:\n${log}`)
    }
    await sleep(50)
  }
  const ask = async (path: string) => (await fetch(`http://127.0.0.1:${admin}${path}`)).text()
  return { url, pid: child.pid!, admin: ask, stop }
}

async function isReady(url: string): Promise<boolean> {
  return fetch(url).then(
    ({ ok }) => ok,
    () => false,
  )
}
