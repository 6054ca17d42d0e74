/** docs/tls.md: it knows every setting there is, and what it tells people to type works. */
import { spawn, spawnSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { fileURLToPath } from 'node:url'
import { expect, onTestFinished, test, vi } from 'vitest'
import { rows } from '../../engine/settings/table.ts'
import { freePort } from '../helpers/ports.ts'
import { spawnService } from '../helpers/service.ts'

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

test('its example works as it is written, and without the client files nobody is let in', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'sluice-tls-page-'))
  onTestFinished(() => rmSync(folder, { recursive: true, force: true }))
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
  const words = start.trim().split(/\s+/)
  expect(words.slice(-2)).toEqual(['npm', 'start'])
  const env = Object.fromEntries(words.slice(0, -2).map((word) => word.split('=')))
  const service = spawnService({ rules: { 'example.yaml': RULES }, env: { ...env, LOG_LEVEL: 'info' } })
  onTestFinished(() => service.stop('SIGKILL').then(() => {}))
  await service.logged('Listening for HTTP')

  const ask = (line: string) => {
    const [, script, ...rest] = line.trim().replace('localhost:8081', service.address('gRPC')).split(/\s+/)
    return spawnSync(process.execPath, [join(ROOT, script), ...rest], { encoding: 'utf8' })
  }
  await vi.waitFor(() => expect(ask(other).stdout).toContain('overall_code:OK'), { timeout: 10_000 })
  const nobody = ask(other.replace(/-grpc-cert-file \S+ -grpc-key-file \S+/, ''))
  expect([nobody.status, nobody.stdout.includes('overall_code')]).toEqual([1, false])
})
