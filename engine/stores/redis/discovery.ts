/**
 * ioredis clients for discovery: the sentinels, and the seeds of a cluster.
 *
 * The library is loaded on first use (50 ms), so a thread with a single Redis starts without it. Hits are sent by socket.ts:
 * with ioredis, many plain commands in one write take seven times the CPU, and its retries, harmless here, would count twice.
 */
import type { Redis } from 'ioredis'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'

export const loadClient = () => import('ioredis')

/** A client that is not connected yet. `waitMs` maps the number of failed attempts to the next delay; null = give up. */
export async function discoveryClient(
  { host, port, family, username, password }: RedisAddress,
  tls: TlsTo | null,
  options: { timeoutMs: number; replyMsMax: number; waitMs: (failures: number) => number | null },
): Promise<Redis> {
  const { Redis } = await loadClient()
  return new Redis({
    host,
    port,
    family,
    username: username === '' ? undefined : username,
    password: password === '' ? undefined : password,
    ...(tls !== null && { tls: tls(host) }),
    protocol: 2, // no HELLO, as envoyproxy/ratelimit
    disableClientInfo: true,
    enableReadyCheck: false,
    lazyConnect: true,
    connectTimeout: options.timeoutMs,
    commandTimeout: options.replyMsMax,
    maxRetriesPerRequest: 0, // commands that wait for a connection fail with the first attempt
    retryStrategy: options.waitMs,
  })
}

/** The reply to CLUSTER SLOTS, on a connection of its own. Rejects with the cause, or when the signal aborts. */
export async function fetchClusterSlots(
  seed: RedisAddress,
  tls: TlsTo | null,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<unknown> {
  const client = await discoveryClient(seed, tls, { timeoutMs, replyMsMax: timeoutMs, waitMs: () => null })
  let failure: Error | null = null // the first one: later ones are its consequences
  client.on('error', (error: Error) => {
    failure ??= error
  })
  const stop = () => client.disconnect()
  signal.addEventListener('abort', stop)
  try {
    await client.connect()
    return await client.call('cluster', 'SLOTS')
  } catch (error) {
    throw failure ?? error
  } finally {
    signal.removeEventListener('abort', stop)
    stop()
  }
}
