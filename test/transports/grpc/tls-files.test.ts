/**
 * The files behind TLS: what stops a start, and what happens when they change while the service runs.
 */
import { cpSync, mkdirSync, renameSync, rmSync, symlinkSync, unlinkSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import type { ConfigurationError } from '../../../engine/runtime/errors.ts'
import type { PortTls } from '../../../engine/runtime/messages.ts'
import { parseSettings } from '../../../engine/settings/parse.ts'
import { Totals } from '../../../engine/stats/totals.ts'
import { getTlsWarnings, TlsFiles } from '../../../transports/grpc/tls-files.ts'
import { type Certificates, makeCertificates, type Pair } from '../../helpers/certificates.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { text } from './open-tls-port.ts'

let server: Certificates
let renewed: Pair
beforeAll(async () => {
  server = await makeCertificates('DNS:localhost')
  renewed = await server.issue('renewed')
})
afterAll(() => server.remove())

/** A folder with tls.crt and tls.key of a pair, as Kubernetes names them. */
function createFolder(pair: Pair): string {
  const folder = makeTemporaryFolder()
  fill(folder, pair)
  return folder
}

function fill(folder: string, pair: Pair): void {
  cpSync(pair.cert, join(folder, 'tls.crt'))
  cpSync(pair.key, join(folder, 'tls.key'))
}

function open(folder: string, more: Record<string, string> = {}, pollMs?: number) {
  const { settings } = parseSettings({
    GRPC_SERVER_USE_TLS: 'true',
    GRPC_SERVER_TLS_CERT: join(folder, 'tls.crt'),
    GRPC_SERVER_TLS_KEY: join(folder, 'tls.key'),
    ...more,
  })
  const lines: string[] = []
  const changes: PortTls[] = []
  const totals = new Totals()
  const files = new TlsFiles({
    settings,
    totals,
    log: (level, message) => lines.push(`${level} ${message}`),
    onChange: (tls) => changes.push(tls),
    ...(pollMs && { pollMs }),
  })
  onTestFinished(() => files.close())
  return { files, lines, changes, totals }
}

describe('5.7: at the start', () => {
  test('the contents of the files are loaded', () => {
    const { files, lines } = open(createFolder(server), {
      GRPC_CLIENT_TLS_CACERT: server.ca,
      GRPC_CLIENT_TLS_SAN: 'proxy',
    })
    const clientCa = [text(server.ca).trimEnd()]
    expect(files.tls).toEqual({
      cert: text(server.cert),
      key: text(server.key),
      clientCa,
      clientSan: 'proxy',
    })
    expect(lines).toEqual([])
  })

  // biome-ignore format: the columns are the specification
  const mistakes: [what: string, env: (folder: string) => Record<string, string>, message: RegExp, exitCode: number][] = [
    ['no certificate named', () => ({ GRPC_SERVER_TLS_CERT: '' }),
      /^GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY: GRPC_SERVER_USE_TLS=true needs both\. Set them to two PEM files/, 2],
    ['two folders', () => ({ GRPC_SERVER_TLS_KEY: server.key }),
      /certFile and keyFile must be in the same directory: .*tls\.crt, .*server\.key\. Put them/, 2],
    ['no such file', (folder) => ({ GRPC_SERVER_TLS_CERT: join(folder, 'nope') }),
      /^GRPC_SERVER_TLS_CERT: failed to read file: .*nope: ENOENT.* It must be there, and this user must/, 2],
    ['a folder', (folder) => ({ GRPC_SERVER_TLS_KEY: join(folder, 'folder') }),
      /^GRPC_SERVER_TLS_KEY: failed to read file: .*folder: it is not a file\./, 2],
    ['a huge file', (folder) => ({ GRPC_SERVER_TLS_KEY: join(folder, 'huge') }),
      /^GRPC_SERVER_TLS_KEY: failed to read file: .*huge: it is larger than 1048576 bytes\./, 2],
    ['the key of another', (folder) => ({ GRPC_SERVER_TLS_KEY: join(folder, 'other.key') }),
      /failed to load TLS key pair \(.*tls\.crt,.*other\.key\): key values mismatch\. Both are PEM/, 2],
    ['a key that is none', (folder) => ({ GRPC_SERVER_TLS_KEY: join(folder, 'text') }),
      /failed to load TLS key pair \(.*tls\.crt,.*text\): .*(unsupported|no start line)/, 2],
    ['a certificate that is none', (folder) => ({ GRPC_SERVER_TLS_CERT: join(folder, 'text') }),
      /failed to load TLS key pair \(.*text,.*tls\.key\): .*no start line/, 2],
    ['a CA file without certificate', (folder) => ({ GRPC_CLIENT_TLS_CACERT: join(folder, 'text') }),
      /^GRPC_CLIENT_TLS_CACERT: failed to load the provided TLS CA certificate: .*text: it holds no certificate\./, 2],
    ['a broken CA', (folder) => ({ GRPC_CLIENT_TLS_CACERT: join(folder, 'broken') }),
      /^GRPC_CLIENT_TLS_CACERT: failed to load the provided TLS CA certificate: .*broken: /, 2],
    ['no CA file', () => ({ GRPC_CLIENT_TLS_CACERT: '/nowhere/ca.pem' }),
      /^GRPC_CLIENT_TLS_CACERT: failed to read file: \/nowhere\/ca\.pem: ENOENT/, 2],
  ]
  for (const [what, env, message, exitCode] of mistakes) {
    test(`8.1: ${what} is reported in one line, exit code ${exitCode}`, () => {
      const folder = createFolder(server)
      mkdirSync(join(folder, 'folder'))
      cpSync(renewed.key, join(folder, 'other.key'))
      writeFileSync(join(folder, 'text'), 'hello\n')
      writeFileSync(join(folder, 'huge'), Buffer.alloc(2 ** 20 + 1))
      writeFileSync(join(folder, 'broken'), '-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n')
      const error = getStartError(() => open(folder, env(folder)))
      expect(error.message).toMatch(message)
      expect(error.message).toMatch(/^[^\n]+ \[TLS_FILES_UNUSABLE\]$/)
      expect(error.exitCode).toBe(exitCode)
    })
  }

  test('an expired certificate is used with a warning', async () => {
    const expired = await server.issue('expired', { days: -1 })
    const { files, lines } = open(createFolder(expired))
    expect(files.tls.cert).toBe(text(expired.cert))
    expect(lines).toEqual([
      expect.stringMatching(
        /^warning GRPC_SERVER_TLS_CERT: .*tls\.crt expired on .*: clients will refuse it\. Renew it\.$/,
      ),
    ])
  })

  // biome-ignore format: the columns are the specification
  const idle: [env: Record<string, string>, warning: RegExp | null][] = [
    [{}, null],
    [{ GRPC_SERVER_USE_TLS: 'true', GRPC_CLIENT_TLS_CACERT: 'c', GRPC_CLIENT_TLS_SAN: 's' }, null],
    [{ GRPC_CLIENT_TLS_CACERT: 'c', GRPC_CLIENT_TLS_SAN: 's' }, /^GRPC_CLIENT_TLS_CACERT has no effect without GRPC_SERVER_USE_TLS=true/],
    [{ GRPC_SERVER_USE_TLS: 'true' }, null],
    [{ GRPC_SERVER_USE_TLS: 'true', GRPC_CLIENT_TLS_CACERT: 'c' }, /^GRPC_CLIENT_TLS_CACERT without GRPC_CLIENT_TLS_SAN: .* every public CA .* Set GRPC_CLIENT_TLS_SAN/],
    [{ GRPC_SERVER_USE_TLS: 'true', GRPC_CLIENT_TLS_SAN: 's' }, /^GRPC_CLIENT_TLS_SAN has no effect without .*GRPC_CLIENT_TLS_CACERT/],
  ]
  for (const [env, warning] of idle) {
    test(`5.7: ${JSON.stringify(env)} ${warning === null ? 'gives no warning' : 'warns'}`, () => {
      const warnings = getTlsWarnings(parseSettings(env).settings)
      expect(warnings).toEqual(warning === null ? [] : [expect.stringMatching(warning)])
    })
  }
})

describe('5.7: while the service runs', () => {
  test('a new pair is loaded once both files are present', async () => {
    const folder = createFolder(server)
    const { changes, lines, totals, files } = open(folder)
    fill(folder, renewed)
    await eventually(() => expect(changes).toHaveLength(1))
    expect(changes[0]).toEqual(files.tls)
    expect(files.tls).toMatchObject({ cert: text(renewed.cert), key: text(renewed.key) })
    await eventually(() => expect(lines).toHaveLength(1))
    expect(lines[0]).toBe(`info CertProvider reloaded cert from (${folder}/tls.crt, ${folder}/tls.key)`)
    expect(Object.fromEntries(totals.sorted())).toMatchObject({
      'certs.load_attempts': 2,
      'certs.num_values': 2,
    })
  })

  test('half of a new pair: one log line, the old pair stays; the other half completes it', async () => {
    const folder = createFolder(server)
    const { changes, lines, totals, files } = open(folder, {}, 30)
    cpSync(renewed.cert, join(folder, 'tls.crt'))
    await eventually(() => expect(lines).toHaveLength(1))
    await new Promise((resolve) => setTimeout(resolve, 200)) // several polls later
    expect(lines).toHaveLength(1)
    expect(lines[0]).toMatch(
      /^error the certificate in force stays, since the new one cannot be used: .*key values mismatch/,
    )
    expect(changes).toEqual([])
    expect(files.tls.cert).toBe(text(server.cert))
    cpSync(renewed.key, join(folder, 'tls.key'))
    await eventually(() => expect(changes).toHaveLength(1))
    expect(changes[0].key).toBe(text(renewed.key))
    expect(Object.fromEntries(totals.sorted())).toMatchObject({
      'certs.load_attempts': 3, // the first at the start
      'certs.load_failures': 1,
    })
  })

  test('an incomplete file: the old pair stays', async () => {
    const folder = createFolder(server)
    const { changes, lines } = open(folder)
    writeFileSync(join(folder, 'tls.crt'), text(renewed.cert).slice(0, 300))
    await eventually(() => expect(lines).toHaveLength(1))
    expect(lines[0]).toContain('the certificate in force stays')
    fill(folder, renewed)
    await eventually(() => expect(changes).toHaveLength(1))
  })

  test('links swapped as Kubernetes does are followed, several times', async () => {
    const folder = makeTemporaryFolder()
    const swap = (version: string, pair: Pair) => {
      mkdirSync(join(folder, version))
      fill(join(folder, version), pair)
      symlinkSync(version, join(folder, '..data_tmp'))
      renameSync(join(folder, '..data_tmp'), join(folder, '..data'))
    }
    swap('..1', server)
    for (const name of ['tls.crt', 'tls.key']) symlinkSync(join('..data', name), join(folder, name))
    const { changes } = open(folder)
    for (const [version, pair] of [
      ['..2', renewed],
      ['..3', server],
      ['..4', renewed],
    ] as const) {
      const before = changes.length
      swap(version, pair)
      await eventually(() => expect(changes).toHaveLength(before + 1))
      expect(changes.at(-1)!.cert).toBe(text(pair.cert))
    }
  })

  test('a folder that is a link, replaced where no watch sees it, is found by polling, then watched', async () => {
    const parent = makeTemporaryFolder()
    const link = join(parent, 'certs')
    symlinkSync(createFolder(server), link)
    vi.useFakeTimers({ toFake: ['setInterval', 'clearInterval'] }) // of the polling
    onTestFinished(() => void vi.useRealTimers())
    const { changes } = open(link, {}, 1_000)
    unlinkSync(link)
    const next = createFolder(renewed)
    symlinkSync(next, link)
    await eventually(() => {
      vi.advanceTimersByTime(1_000)
      expect(changes).toHaveLength(1)
    })
    fill(next, server) // the new folder is watched: no further polling
    await eventually(() => expect(changes).toHaveLength(2))
  })

  test('files that disappear and come back', async () => {
    const folder = createFolder(server)
    const { changes, lines } = open(folder, {}, 50)
    rmSync(folder, { recursive: true })
    await eventually(() => expect(lines).toHaveLength(1))
    expect(lines[0]).toContain('failed to read file')
    mkdirSync(folder)
    fill(folder, renewed)
    await eventually(() => expect(changes).toHaveLength(1))
  })

  test('changes of the client CA are read', async () => {
    const folder = createFolder(server)
    const ca = join(folder, 'ca.crt')
    cpSync(server.ca, ca)
    const { changes } = open(folder, { GRPC_CLIENT_TLS_CACERT: ca })
    writeFileSync(ca, text(server.ca) + text(server.ca).replace(/\n/g, '\r\n'))
    await eventually(() => expect(changes).toHaveLength(1))
    expect(changes[0].clientCa).toHaveLength(2)
  })

  test('other files in the folder, and the same contents written again, are ignored', async () => {
    const folder = createFolder(server)
    const { changes, lines } = open(folder, {}, 30)
    writeFileSync(join(folder, 'notes'), 'x')
    fill(folder, server)
    await new Promise((resolve) => setTimeout(resolve, 300))
    expect(changes).toEqual([])
    expect(lines).toEqual([])
  })
})

function getStartError(start: () => unknown): ConfigurationError {
  try {
    start()
  } catch (error) {
    return error as ConfigurationError
  }
  return expect.fail('it started')
}
