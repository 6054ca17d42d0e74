/** An agent process is killed while its results are not sent yet. */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../../helpers/eventually.ts'
import { startFakeRelay } from '../../helpers/fake-relays.ts'
import { makeMemoryFolder } from '../../helpers/memory-folder.ts'
import { startServer } from './setup.ts'

const SITES = ['relay', 'other', ...[1, 2, 3, 4, 5, 6, 7, 8].map((i) => `more-${i}`)] // so that results come soon

test('6.5: after kill -9 an agent still has its results, and sends them when started again', async () => {
  const relay = await startFakeRelay('new-api')
  onTestFinished(() => relay.close())
  const server = await startServer({}, SITES)
  server.clock.ms = Date.now() // the child uses the system clock
  const token = await server.create('shanghai')
  server.setSites({ intervalSec: 2 }) // the store keeps one probe per site and second
  const folder = makeMemoryFolder()
  const tokenFile = join(folder, 'token')
  writeFileSync(tokenFile, `${token}\n`)
  const env = { AGENT_SERVER: server.url(), AGENT_TOKEN_FILE: tokenFile, port: relay.port }

  const first = startChild(folder, env)
  await eventually(() => expect(first.last().waiting).toBeGreaterThanOrEqual(3))
  first.child.kill('SIGKILL')
  await once(first.child, 'close')
  const { waiting, sent } = first.last()
  expect([sent, await server.rows()]).toEqual([0, []]) // the agent sends ten seconds after its first poll

  const second = startChild(folder, env)
  await eventually(() => expect(second.last().sent).toBeGreaterThanOrEqual(waiting))
  second.child.kill('SIGKILL')
  await once(second.child, 'close')
  const rows = await server.rows()
  expect(new Set(rows.map(({ vantage }) => vantage))).toEqual(new Set(['shanghai']))
  expect(rows.length).toBeGreaterThanOrEqual(waiting)
  expect(second.logged()).toMatch(/^warning 127\.0\.0\.1:\d+ is polled over plain http[^\n]*\n$/)
})

function startChild(folder: string, { port, ...more }: Record<string, string | number>) {
  const hosts = SITES.map((slug) => `${slug}.example.org=127.0.0.2:${port}`).join(',')
  const env = { NODE_ENV: 'test', EGRESS_TEST_ALLOW: '127.0.0.2', EGRESS_TEST_HOSTS: hosts, ...more }
  const file = fileURLToPath(new URL('./killed-agent.ts', import.meta.url))
  const quiet = '--disable-warning=ExperimentalWarning'
  const child: ChildProcess = spawn(process.execPath, [quiet, file, folder], {
    env: { ...process.env, ...env } as NodeJS.ProcessEnv,
  })
  onTestFinished(() => void child.kill('SIGKILL'))
  let text = ''
  let logged = ''
  child.stdout!.on('data', (chunk) => {
    text += chunk
  })
  child.stderr!.on('data', (chunk) => {
    logged += chunk
  })
  const last = () => {
    const [waiting = 0, sent = 0] = (text.split('\n').at(-2) ?? '').split(' ').map(Number)
    return { waiting, sent }
  }
  return { child, last, logged: () => logged }
}
