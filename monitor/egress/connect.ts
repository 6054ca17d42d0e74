/**
 * From a checked address to a socket that may carry a request: TCP to exactly that address, then TLS (spec 5.5, 5.6).
 *
 *     dial({ address, port }, signal)                    the peer's address must be the one given, else it is destroyed
 *     connected(socket, signal)                          the same wait for a socket to any address: the proxy
 *     secure(socket, { host, isLiteral, alpn }, signal)  { socket, certificate, failure }
 *
 * An invalid certificate is recorded before the caller refuses it, so that what is wrong with it can be shown.
 */
import type { Socket } from 'node:net'
import { connect } from 'node:net'
import type { PeerCertificate, TLSSocket } from 'node:tls'
import { checkServerIdentity, connect as tlsConnect } from 'node:tls'
import type { Certificate } from '../facts.ts'
import { shown } from '../shown.ts'
import { isSameAddress } from './address.ts'
import { Failure, toFailure } from './failure.ts'
import { LIMITS } from './limits.ts'
import type { Endpoint } from './settings.ts'

/** `isValid` = isChainValid and isNameValid. */
export interface PeerFacts extends Certificate {
  names: string[] // of the SAN, at most LIMITS.names
  isChainValid: boolean
  isNameValid: boolean
}

export interface Secured {
  socket: TLSSocket
  certificate: PeerFacts | null // null = the peer sent none
  failure: Failure | null // why no request may be sent
}

export interface TlsOptions {
  host: string
  isLiteral: boolean // an address is not sent as server name
  alpn: string[]
  ca?: string // PEM, for tests; default: those of Node
}

const TEXT_CHARS = 100
const EXPIRED = new Set(['CERT_HAS_EXPIRED', 'CERT_NOT_YET_VALID'])

export async function dial({ address, port }: Endpoint, signal: AbortSignal): Promise<Socket> {
  const family = address.includes(':') ? 6 : 4
  const socket = connect({ host: address, port, family, autoSelectFamily: false, lookup: refuseLookUp })
  await connected(socket, signal)
  if (isSameAddress(socket.remoteAddress, address)) return socket
  socket.destroy()
  throw new Failure('target_not_allowed', 'another peer')
}

export function connected(socket: Socket, signal: AbortSignal): Promise<void> {
  return new Promise((resolve, reject) => {
    const abort = () => socket.destroy(signal.reason)
    const unsubscribe = () => signal.removeEventListener('abort', abort)
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    socket.on('error', (error) => reject(toFailure('connect', error))) // stays: later errors are handled elsewhere
    socket.once('close', unsubscribe)
    socket.once('connect', () => {
      unsubscribe()
      socket.setNoDelay(true)
      resolve()
    })
  })
}

/** Not called for an address; fails the connection if a name ever gets here. */
function refuseLookUp(host: string): never {
  throw new Failure('target_not_allowed', `a name reached the socket: ${host.length} characters`)
}

export function secure(raw: Socket, options: TlsOptions, signal: AbortSignal): Promise<Secured> {
  return new Promise((resolve, reject) => {
    const socket = tlsConnect({
      socket: raw,
      servername: options.isLiteral ? undefined : options.host,
      ALPNProtocols: options.alpn,
      ca: options.ca,
      rejectUnauthorized: false, // checked below, after its facts are read
      checkServerIdentity: () => undefined,
    })
    const abort = () => {
      socket.destroy(signal.reason)
      raw.destroy()
    }
    signal.addEventListener('abort', abort, { once: true })
    if (signal.aborted) abort()
    const unsubscribe = () => signal.removeEventListener('abort', abort)
    socket.on('error', (error) => {
      raw.destroy()
      reject(toFailure('tls', error))
    })
    socket.once('close', () => {
      unsubscribe()
      reject(new Failure('tls_reset', 'closed'))
    })
    socket.once('secureConnect', () => {
      unsubscribe()
      resolve({ socket, ...verifyPeer(socket, options.host) })
    })
  })
}

function verifyPeer(socket: TLSSocket, host: string): Omit<Secured, 'socket'> {
  const peer = socket.getPeerCertificate()
  if (Object.keys(peer ?? {}).length === 0)
    return { certificate: null, failure: new Failure('tls_untrusted', 'no certificate') }
  const chainError = socket.authorizationError === undefined ? null : String(socket.authorizationError)
  const isChainValid = socket.authorized
  const isNameValid = isNamed(host, peer)
  const certificate: PeerFacts = {
    version: socket.getProtocol() ?? 'unknown',
    issuer: issuerText(peer),
    notAfterSec: Math.floor(Date.parse(peer.valid_to) / 1000) || 0,
    isValid: isChainValid && isNameValid,
    alpn: socket.alpnProtocol || null,
    names: listNames(peer),
    isChainValid,
    isNameValid,
  }
  if (!isChainValid) {
    const code = EXPIRED.has(chainError ?? '') ? 'tls_expired' : 'tls_untrusted'
    return {
      certificate,
      failure: new Failure(code, (chainError ?? 'unknown').replace(/[^A-Za-z0-9_ ]/g, '').slice(0, 60)),
    }
  }
  const failure = isNameValid ? null : new Failure('tls_name_mismatch', 'not in the certificate')
  return { certificate, failure }
}

function isNamed(host: string, peer: PeerCertificate): boolean {
  try {
    return checkServerIdentity(host, peer) === undefined
  } catch {
    return false // names that Node cannot parse; an error here would end the process
  }
}

function issuerText({ issuer }: PeerCertificate): string {
  const text = [issuer?.CN, issuer?.O].flat().find((part) => part)
  return shown(text ?? '', TEXT_CHARS)
}

function listNames({ subjectaltname }: PeerCertificate): string[] {
  const names = (subjectaltname ?? '').matchAll(/DNS:([^,\s"]{1,253})/g)
  return Array.from(names, ([, name]) => name.toLowerCase()).slice(0, LIMITS.names)
}
