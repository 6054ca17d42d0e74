/**
 * Clients that find out where to count: at sentinels, and at a cluster's seeds. ioredis does the wire there.
 *
 * It is loaded by who needs it (50 ms), so a thread with a single Redis starts without it. Hits go by socket.ts: with
 * ioredis many plain commands in one write cost us seven times the CPU, and asking twice, which does no harm here, would count
 * twice there.
 */
import type { Redis } from 'ioredis'
import type { TlsTo } from '../tls.ts'
import type { RedisAddress } from './address.ts'

export const loadClient = () => import('ioredis')

/** Not connected yet. `waitMs` before the next attempt, by the number of those that failed; null = there is none. */
export async function discoveryClient(
  { host, port, family, username, password }: RedisAddress,
  tls: TlsTo | null,
  options: { timeoutMs: number; answerMsMax: number; waitMs: (failures: number) => number | null },
): Promise<Redis> {
  const { Redis } = await loadClient()
  return new Redis({
    host,
    port,
    family,
    username: username === '' ? undefined : username,
    password: password === '' ? undefined : password,
    ...(tls !== null && { tls: tls(host) }),
    protocol: 2, // no HELLO: as the reference
    disableClientInfo: true,
    enableReadyCheck: false,
    lazyConnect: true,
    connectTimeout: options.timeoutMs,
    commandTimeout: options.answerMsMax,
    maxRetriesPerRequest: 0, // what waits for a connection fails with the first attempt
    retryStrategy: options.waitMs,
  })
}

/** The reply to CLUSTER SLOTS, by a connection of its own. Rejects with the reason; the signal ends the waiting. */
export async function askForSlots(
  seed: RedisAddress,
  tls: TlsTo | null,
  timeoutMs: number,
  signal: AbortSignal,
): Promise<unknown> {
  const client = await discoveryClient(seed, tls, { timeoutMs, answerMsMax: timeoutMs, waitMs: () => null })
  let failure: Error | null = null // the first is the cause, later ones only its consequences
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
