/**
 * The certificate files of the gRPC port: read and checked at the start, and again when they change (spec 5.7). In main.
 *
 *     their folders change, or POLL_MS passes ──► read ──► unchanged: nothing
 *                                                   ├────► valid: onChange(tls) ──► every worker
 *                                                   └────► invalid: logged once; the current files stay in force
 *
 * The certificate and its key are loaded together, so half of a new pair is never used. envoyproxy/ratelimit reads the
 * client CA at the start only, and misses changes behind symbolic links as Kubernetes makes them; both are picked up here.
 */
import { X509Certificate } from 'node:crypto'
import { type FSWatcher, readFileSync, statSync, watch } from 'node:fs'
import { dirname, normalize } from 'node:path'
import { createSecureContext } from 'node:tls'
import { ConfigurationError } from '../../engine/runtime/errors.ts'
import type { Log, PortTls } from '../../engine/runtime/messages.ts'
import type { Settings } from '../../engine/settings/parse.ts'
import type { Totals } from '../../engine/stats/totals.ts'
import { getContextOptions } from './tls-acceptor.ts'

const SETTLE_MS = 100 // wait until both files of a pair have been written
const SETTLE_MS_MAX = 1_000 // the longest wait, however busy the folder is
const POLL_MS = 60_000 // for changes that a watch misses: link targets in other folders, network file systems
const FILE_BYTES_MAX = 2 ** 20 // a chain has a few KiB, a store of all public roots 250
const CERTIFICATE = /-----BEGIN CERTIFICATE-----[\s\S]+?-----END CERTIFICATE-----/g

type TlsSettings = Pick<
  Settings,
  'GRPC_SERVER_TLS_CERT' | 'GRPC_SERVER_TLS_KEY' | 'GRPC_CLIENT_TLS_CACERT' | 'GRPC_CLIENT_TLS_SAN'
>

export interface TlsFilesOptions {
  settings: TlsSettings
  log: Log
  totals: Totals
  onChange: (tls: PortTls) => void
  pollMs?: number // for tests
}

export class TlsFiles {
  private readonly options: TlsFilesOptions
  private readonly folders: ReadonlySet<string>
  private readonly pollTimer: NodeJS.Timeout
  private watchers: FSWatcher[] = []
  private timer: NodeJS.Timeout | null = null
  private changedMs = 0 // of the first change not checked yet
  private lastOutcome: string // of the last check: the contents as JSON, or an error message
  tls: PortTls // in force

  /** Throws a ConfigurationError when the files cannot be used. */
  constructor(options: TlsFilesOptions) {
    this.options = options
    const { settings, totals } = options
    const { GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT } = settings
    this.tls = readTls(settings)
    this.lastOutcome = JSON.stringify(this.tls)
    totals.add('certs.load_attempts', 1)
    totals.add('certs.load_failures', 0) // present before the first failure, for `increase()`
    const files = [GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY, GRPC_CLIENT_TLS_CACERT].filter(Boolean)
    totals.set('certs.num_values', files.length)
    this.warnIfNotValidNow()
    this.folders = new Set([GRPC_SERVER_TLS_CERT, GRPC_CLIENT_TLS_CACERT].filter(Boolean).map(dirname))
    this.watch()
    this.pollTimer = setInterval(() => this.check(), options.pollMs ?? POLL_MS).unref()
  }

  close(): void {
    clearInterval(this.pollTimer)
    if (this.timer) clearTimeout(this.timer)
    for (const watcher of this.watchers) watcher.close()
  }

  /** Renewed before each check: the watch of a replaced folder stays on the old one. */
  private watch(): void {
    for (const watcher of this.watchers) watcher.close()
    this.watchers = []
    for (const folder of this.folders) {
      try {
        const watcher = watch(folder, { persistent: false }, () => this.scheduleCheck())
        this.watchers.push(watcher.on('error', () => {})) // polling continues
      } catch {} // a missing folder: reading reports it, and polling finds it again
    }
  }

  private scheduleCheck(): void {
    const nowMs = performance.now()
    if (this.timer) clearTimeout(this.timer)
    else this.changedMs = nowMs
    const waitMs = Math.min(SETTLE_MS, this.changedMs + SETTLE_MS_MAX - nowMs)
    this.timer = setTimeout(() => this.check(), Math.max(0, waitMs)).unref()
  }

  private check(): void {
    if (this.timer) clearTimeout(this.timer)
    this.timer = null
    this.watch()
    const { settings, totals, log, onChange } = this.options
    let tls: PortTls
    try {
      tls = readTls(settings)
    } catch (error) {
      const { message } = error as Error
      if (message === this.lastOutcome) return
      this.lastOutcome = message
      totals.add('certs.load_attempts', 1)
      totals.add('certs.load_failures', 1)
      log('error', `the certificate in force stays, since the new one cannot be used: ${message}`)
      return
    }
    const outcome = JSON.stringify(tls)
    if (outcome === this.lastOutcome) return
    this.lastOutcome = outcome
    this.tls = tls
    totals.add('certs.load_attempts', 1)
    onChange(tls)
    log(
      'info',
      `CertProvider reloaded cert from (${settings.GRPC_SERVER_TLS_CERT}, ${settings.GRPC_SERVER_TLS_KEY})`,
    )
    this.warnIfNotValidNow()
  }

  /** A certificate outside its validity is used all the same: accepting it is the client's decision. */
  private warnIfNotValidNow(): void {
    const { validFrom, validTo } = new X509Certificate(this.tls.cert)
    const file = this.options.settings.GRPC_SERVER_TLS_CERT
    const warn = (what: string) =>
      this.options.log('warning', `GRPC_SERVER_TLS_CERT: ${file} ${what}: clients will refuse it. Renew it.`)
    if (Date.parse(validTo) < Date.now()) warn(`expired on ${validTo}`)
    else if (Date.parse(validFrom) > Date.now()) warn(`is not valid before ${validFrom}`)
  }
}

/** Warnings about settings that have no effect, or accept more clients than they seem to. */
export function getTlsWarnings(settings: Settings): string[] {
  const { GRPC_SERVER_USE_TLS: usesTls, GRPC_CLIENT_TLS_CACERT: ca, GRPC_CLIENT_TLS_SAN: san } = settings
  if (!usesTls && ca !== '')
    return [
      'GRPC_CLIENT_TLS_CACERT has no effect without GRPC_SERVER_USE_TLS=true: clients are not verified.',
    ]
  if (san !== '' && (!usesTls || ca === '')) {
    const needs = 'GRPC_SERVER_USE_TLS=true and GRPC_CLIENT_TLS_CACERT'
    return [`GRPC_CLIENT_TLS_SAN has no effect without ${needs}: clients are not verified.`]
  }
  if (usesTls && ca !== '' && san === '') {
    return [
      'GRPC_CLIENT_TLS_CACERT without GRPC_CLIENT_TLS_SAN: every certificate of that CA, and of every public CA that this ' +
        "system trusts, is accepted, whatever its name. Set GRPC_CLIENT_TLS_SAN to the name in your clients' certificates.",
    ]
  }
  return []
}

/** Reads and validates all files. Throws a ConfigurationError. */
function readTls(settings: TlsSettings): PortTls {
  const { GRPC_SERVER_TLS_CERT: certFile, GRPC_SERVER_TLS_KEY: keyFile } = settings
  const where = 'GRPC_SERVER_TLS_CERT, GRPC_SERVER_TLS_KEY'
  if (certFile === '' || keyFile === '')
    throw createTlsError(
      where,
      'GRPC_SERVER_USE_TLS=true needs both.',
      'Set them to two PEM files of one folder.',
    )
  if (dirname(normalize(certFile)) !== dirname(normalize(keyFile))) {
    const what = `certFile and keyFile must be in the same directory: ${certFile}, ${keyFile}.`
    throw createTlsError(where, what, 'Put them into one folder, so that both change together.')
  }
  const cert = readFile('GRPC_SERVER_TLS_CERT', certFile)
  const key = readFile('GRPC_SERVER_TLS_KEY', keyFile)
  const caFile = settings.GRPC_CLIENT_TLS_CACERT
  const clientCa = caFile === '' ? null : readRoots(caFile)
  const tls = { cert, key, clientCa, clientSan: settings.GRPC_CLIENT_TLS_SAN }
  try {
    new X509Certificate(cert)
    createSecureContext(getContextOptions(tls))
  } catch (cause) {
    const what = `failed to load TLS key pair (${certFile},${keyFile}): ${describeError(cause)}.`
    const fix =
      "Both are PEM: the chain with the server's own certificate first, and its key without a passphrase."
    throw createTlsError(where, what, fix, { cause })
  }
  return tls
}

function readRoots(file: string): string[] {
  const where = 'GRPC_CLIENT_TLS_CACERT'
  const certificates = readFile(where, file).match(CERTIFICATE) ?? []
  try {
    if (certificates.length === 0) throw new Error('it holds no certificate')
    for (const each of certificates) new X509Certificate(each)
    return certificates
  } catch (cause) {
    const what = `failed to load the provided TLS CA certificate: ${file}: ${describeError(cause)}.`
    throw createTlsError(where, what, 'It is a PEM file with the certificate of each CA.', { cause })
  }
}

function readFile(variable: string, file: string): string {
  try {
    const stat = statSync(file)
    if (!stat.isFile()) throw new Error('it is not a file')
    if (stat.size > FILE_BYTES_MAX) throw new Error(`it is larger than ${FILE_BYTES_MAX} bytes`)
    return readFileSync(file, 'utf8')
  } catch (cause) {
    const what = `failed to read file: ${file}: ${(cause as Error).message}.`
    throw createTlsError(variable, what, 'It must be there, and this user must be able to read it.', {
      cause,
    })
  }
}

function createTlsError(
  where: string,
  what: string,
  fix: string,
  options?: ErrorOptions,
): ConfigurationError {
  return new ConfigurationError({ code: 'TLS_FILES_UNUSABLE', where, what, fix, exitCode: 2 }, options)
}

/** OpenSSL's errors have a readable reason. */
function describeError(error: unknown): string {
  return (error as { reason?: string }).reason ?? (error as Error).message
}
