/**
 * Why a visit ended early, as error codes of the specification (6.3). Every error that a socket, TLS, the HTTP parser or a
 * decoder can raise is mapped here, so no text of a target is passed on.
 *
 *     system code or HPE_… ──► failure of that phase ──► Visit.error, Visit.detail
 *
 * All protocol errors are `body_invalid`: bytes that are not HTTP, and bodies that do not match their encoding.
 */
import type { ErrorCode } from '../facts.ts'

export type Phase = 'dns' | 'connect' | 'tls' | 'http'

/** `detail` is a fixed text or a system code, never text of the target: at most 60 of A-Z, a-z, digits, _ and blanks. */
export class Failure extends Error {
  override name = 'Failure'
  readonly code: ErrorCode
  readonly detail: string
  readonly isOurs: boolean // this host is out of ports, sockets or memory: no evidence about the target

  constructor(code: ErrorCode, detail: string, options: { isOurs?: boolean } = {}) {
    super(`${code}: ${detail}`)
    this.code = code
    this.detail = detail
    this.isOurs = options.isOurs ?? false
  }
}

const DETAIL_CHARS = 60
const OURS = new Set(['EMFILE', 'ENFILE', 'ENOBUFS', 'ENOMEM', 'EADDRNOTAVAIL', 'EACCES', 'EPERM'])

const BY_PHASE: Record<Phase, { otherwise: ErrorCode; codes: Record<string, ErrorCode> }> = {
  dns: {
    otherwise: 'dns_error',
    codes: { ENOTFOUND: 'dns_nxdomain', ETIMEOUT: 'dns_timeout', ECANCELLED: 'dns_timeout' },
  },
  connect: {
    otherwise: 'connect_unreachable',
    codes: {
      ECONNREFUSED: 'connect_refused',
      ECONNRESET: 'connect_reset',
      EPIPE: 'connect_reset',
      ETIMEDOUT: 'connect_timeout',
    },
  },
  tls: {
    otherwise: 'tls_protocol', // every error of OpenSSL
    codes: {
      ECONNRESET: 'tls_reset',
      EPIPE: 'tls_reset',
      ECONNABORTED: 'tls_reset',
      ETIMEDOUT: 'tls_timeout',
    },
  },
  http: {
    otherwise: 'body_invalid', // HPE_… of the parser, Z_… and the like of the decoders
    codes: {
      ECONNRESET: 'http_reset',
      ECONNABORTED: 'http_reset',
      EPIPE: 'http_reset',
      ETIMEDOUT: 'http_timeout',
      ERR_STREAM_PREMATURE_CLOSE: 'http_reset',
      HPE_HEADER_OVERFLOW: 'too_large',
      HPE_CHUNK_EXTENSIONS_OVERFLOW: 'too_large',
    },
  },
}

/** Returns a Failure unchanged; maps any other error by its system code and phase. */
export function toFailure(phase: Phase, error: unknown): Failure {
  if (error instanceof Failure) return error
  const { code } = error as { code?: unknown }
  const detail =
    typeof code === 'string' ? code.replace(/[^A-Za-z0-9_]/g, '').slice(0, DETAIL_CHARS) : 'unknown'
  const isTls = /^(ERR_SSL|EPROTO)/.test(detail) // an alert can follow the handshake: a client certificate is required
  const { codes, otherwise } = BY_PHASE[phase === 'http' && isTls ? 'tls' : phase]
  return new Failure(codes[detail] ?? otherwise, detail, { isOurs: OURS.has(detail) })
}
