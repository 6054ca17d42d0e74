/** docs/tls.md: every setting of TLS is on the page, and its commands work. */
import { spawn, spawnSync } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test } from 'vitest'
import { rows } from '../../engine/settings/table.ts'
import { eventually } from '../helpers/eventually.ts'
import { freePort } from '../helpers/ports.ts'
import { spawnService } from '../helpers/service.ts'
import { makeTemporaryFolder } from '../helpers/temporary-folder.ts'

const ROOT = fileURLToPath(new URL('../..', import.meta.url))
const PAGE = readFileSync(join(ROOT, 'docs/tls.md'), 'utf8')
const RULES = readFileSync(join(ROOT, 'examples/config/example.yaml'), 'utf8')

test('every setting of TLS is on the page', () => {
  const names = rows.map(({ name }) => name).filter((name) => /TLS/.test(name))
  expect(names.length).toBeGreaterThan(15)
  const missing = names.filter(
    (name) => !PAGE.includes(name) && !PAGE.includes(`\`_${name.split('_').at(-1)}`),
  )
  expect(missing).toEqual([])
})

test('its example works as written, and a client without its files is refused', async () => {
  const folder = makeTemporaryFolder()
  const redisPort = String(await freePort())
  const text = PAGE.replaceAll('/tmp/sluice-tls', folder)
    .replaceAll('6390', redisPort)
    .replaceAll('\\\n', ' ')
  const [terminal, other] = [...text.matchAll(/```sh\n([\s\S]+?)```/g)].map(([, block]) => block)
  const [make, redisLine, start] = terminal.split('\n\n')
  expect(spawnSync('sh', ['-c', make], { cwd: ROOT, encoding: 'utf8' })).toMatchObject({
    status: 0,
    stderr: '',
  })

  const [program, ...args] = redisLine
    .replace('&', '')
    .trim()
    .split(/\s+/)
    .map((word) => word.replace(/^''$/, ''))
  const redis = spawn(program, args, { cwd: folder, stdio: 'ignore' })
  onTestFinished(() => void redis.kill())
  const parts = start.trim().split(/\s+/)
  expect(parts.slice(-2)).toEqual(['npm', 'start'])
  const env = Object.fromEntries(parts.slice(0, -2).map((word) => word.split('=')))
  const service = spawnService({ rules: { 'example.yaml': RULES }, env: { ...env, LOG_LEVEL: 'info' } })
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged('Listening for HTTP')

  const runClient = (line: string) => {
    const [, script, ...rest] = line.trim().replace('localhost:8081', service.address('gRPC')).split(/\s+/)
    return spawnSync(process.execPath, [join(ROOT, script), ...rest], { encoding: 'utf8' })
  }
  await eventually(() => expect(runClient(other).stdout).toContain('overall_code:OK'))
  const refused = runClient(other.replace(/-grpc-cert-file \S+ -grpc-key-file \S+/, ''))
  expect([refused.status, refused.stdout.includes('overall_code')]).toEqual([1, false])
}, 120_000)
