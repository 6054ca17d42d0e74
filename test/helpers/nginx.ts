/**
 * A real nginx on a free port with the configuration of examples/nginx or a variant. It is stopped after the test.
 *
 *     const nginx = await startNginx(exampleConfig(), { upstreamPort })
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { accessSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { onTestFinished } from 'vitest'
import { freePort } from './ports.ts'

const CONFIG = new URL('../../examples/nginx/nginx.conf', import.meta.url)
const START_MS_MAX = 60_000
const STOP_MAX_MS = 5_000
const ONLY_AS_ROOT = '/usr/sbin' // Debian installs it there; not in every PATH

export function exampleConfig(): string {
  return readFileSync(CONFIG, 'utf8')
}

/** Replaces ports 10080 and 8090 of the example, and its files in /tmp. */
export async function startNginx(
  config: string,
  { upstreamPort }: { upstreamPort: number },
): Promise<{ port: number }> {
  const port = await freePort()
  const folder = mkdtempSync(join(tmpdir(), 'sluice-nginx-'))
  const file = join(folder, 'nginx.conf')
  const text = config
    .replaceAll('127.0.0.1:10080', `127.0.0.1:${port}`)
    .replaceAll('127.0.0.1:8090', `127.0.0.1:${upstreamPort}`)
    .replaceAll('/tmp/sluice-nginx', join(folder, 'nginx'))
  writeFileSync(file, text)
  const args = ['-e', 'stderr', '-p', folder, '-c', file, '-g', 'daemon off; master_process off;']
  const child = spawn(nginxPath(), args, { stdio: ['ignore', 'ignore', 'pipe'] })
  let log = ''
  child.stderr.setEncoding('utf8').on('data', (text) => {
    log += text
  })
  const kill = () => child.kill('SIGKILL')
  process.once('exit', kill)
  onTestFinished(async () => {
    process.off('exit', kill)
    if (child.exitCode === null && child.signalCode === null) {
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      const timer = setTimeout(kill, STOP_MAX_MS)
      await exited
      clearTimeout(timer)
    }
    rmSync(folder, { recursive: true, force: true })
  })
  const untilMs = Date.now() + START_MS_MAX
  while (!(await accepts(port))) {
    if (child.exitCode !== null || Date.now() > untilMs) throw new Error(`nginx did not start:\n${log}`)
    await sleep(20)
  }
  return { port }
}

function nginxPath(): string {
  const folders = [...(process.env.PATH ?? '').split(delimiter), ONLY_AS_ROOT]
  const isThere = (path: string) => {
    try {
      accessSync(path)
      return true
    } catch {
      return false
    }
  }
  return folders.map((folder) => join(folder, 'nginx')).find(isThere) ?? 'nginx'
}

async function accepts(port: number): Promise<boolean> {
  const socket = connect(port, '127.0.0.1')
  return once(socket, 'connect')
    .then(
      () => true,
      () => false,
    )
    .finally(() => socket.destroy())
}
