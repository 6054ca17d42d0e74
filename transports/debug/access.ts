/**
 * Who may use the debug port: whoever reaches it, or who shows DEBUG_TOKEN.
 *
 *     curl -H 'Authorization: Bearer <token>' …/stats        go tool pprof '…/debug/pprof/profile?token=<token>'
 *
 * The second way is for tools that cannot send headers; a token in a URL may end up in logs of proxies.
 */
import { createHash, timingSafeEqual } from 'node:crypto'
import type { Exchange } from './exchange.ts'

const LOOPBACK = /^((::ffff:)?127\.\d+\.\d+\.\d+|::1|localhost)$/i

/** Whether the request shows the token; an empty one is shown by everybody. */
export function mayEnter({ authorization, query }: Exchange, token: string): boolean {
  if (token === '') return true
  const bearer = /^Bearer +(\S+) *$/i.exec(authorization)?.[1]
  return [bearer, query.get('token')].some((shown) => shown != null && isSame(shown, token))
}

/** Takes the same time wherever they differ. */
function isSame(shown: string, token: string): boolean {
  return timingSafeEqual(hashOf(shown), hashOf(token))
}

function hashOf(text: string): Buffer {
  return createHash('sha256').update(text).digest() // of one length, as the comparison wants it
}

/** What to say at the start about a port that strangers may reach; null = nothing. */
export function accessWarning(host: string, token: string): string | null {
  if (token !== '' || LOOPBACK.test(host)) return null
  return (
    `the debug port listens on ${host} without a token: whoever reaches it sees rules and statistics and can start ` +
    'profiles. Set DEBUG_TOKEN, or DEBUG_HOST=127.0.0.1.'
  )
}
