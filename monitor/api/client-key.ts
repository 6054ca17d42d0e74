/**
 * The API key of a request (spec 4.4): `X-API-Key`, or `Authorization: Bearer`. Two different keys count as a wrong one.
 */
import { type ApiKeyGrant, ApiKeys } from '../storage/api-keys.ts'
import type { Snapshot, StoredApiKey } from '../storage/snapshot.ts'
import type { ApiRequest } from './request.ts'
import { WrongKeys } from './wrong-keys.ts'

const SCHEME = 'bearer'

/** `blocked`: the key was not checked, since too many wrong ones came from the address. */
export type KeyFinding =
  | { kind: 'none' }
  | { kind: 'valid'; grant: ApiKeyGrant }
  | { kind: 'wrong' }
  | { kind: 'blocked'; untilSec: number }

export class ClientKeys {
  private readonly wrongKeys = new WrongKeys()
  private known: readonly StoredApiKey[] = []
  private keys = new ApiKeys([])

  /** Before the first snapshot no key is known, and none counts as wrong. */
  find({ headers }: ApiRequest, ip: string, snapshot: Snapshot | null, nowSec: number): KeyFinding {
    const sent = sentKeys(headers['x-api-key'], headers.authorization)
    if (sent.length === 0 || snapshot === null) return { kind: 'none' }
    const untilSec = this.wrongKeys.blockedUntilSec(ip, nowSec)
    if (untilSec > 0) return { kind: 'blocked', untilSec }
    if (snapshot.apiKeys !== this.known) {
      this.known = snapshot.apiKeys
      this.keys = new ApiKeys(snapshot.apiKeys)
    }
    const grant = sent.every((key) => key === sent[0]) ? this.keys.verify(sent[0], nowSec) : null
    if (grant) return { kind: 'valid', grant }
    this.wrongKeys.add(ip, nowSec)
    return { kind: 'wrong' }
  }
}

function sentKeys(apiKey: string, authorization: string): string[] {
  const bearer = parseBearer(authorization.trim())
  return [...(apiKey === '' ? [] : [apiKey]), ...(bearer === null ? [] : [bearer])]
}

/** Empty when only the scheme was sent; null for another scheme. */
function parseBearer(authorization: string): string | null {
  if (authorization.slice(0, SCHEME.length).toLowerCase() !== SCHEME) return null
  const rest = authorization.slice(SCHEME.length)
  return rest === '' || rest.startsWith(' ') ? rest.trimStart() : null
}
