/** What an error reply is about: one key, the server, or the choice of the server. */
import { ErrorReply, type Reply } from './resp.ts'

/** Errors about one key or the address of a key: the server itself works. */
const KEY_ERROR =
  /^-?(MOVED|ASK|TRYAGAIN|NOSCRIPT|NOPERM|WRONGTYPE|ERR (value is not an integer|increment or decrement would overflow))\b/

/** INCRBY has not added: the count and the hits together are above 2^63-1. */
const OVERFLOW = /^-?ERR increment or decrement would overflow\b/

/** The server cannot take writes, now or ever: a retry on the same connection would fail the same way. */
const WRONG_SERVER = /^-?(READONLY|LOADING|MASTERDOWN|CLUSTERDOWN)\b/

/** The server could not do its work. */
export function isServerError(reply: Reply): reply is ErrorReply {
  return reply instanceof ErrorReply && !isKeyError(reply.text)
}

/** Whether an error reply says that the server works, and only this key could not be counted here. */
export function isKeyError(text: string): boolean {
  return KEY_ERROR.test(text)
}

/** Whether an error reply says that a counter would exceed 2^63-1, which is over any limit. */
export function isOverflow(text: string): boolean {
  return OVERFLOW.test(text)
}

/** Whether an error reply is about the server rather than about a key. */
export function isWrongServer(text: string): boolean {
  return WRONG_SERVER.test(text)
}
