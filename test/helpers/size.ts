/**
 * How much a test or benchmark does: enough to notice rot every time, more when asked.
 *
 *     npm test                      small
 *     SLUICE_SIZE=full npm test     full
 */
export const isFull = process.env.SLUICE_SIZE === 'full'

export function size<T>({ small, full }: { small: T; full: T }): T {
  return isFull ? full : small
}

/** A seed of one's own choice (SLUICE_SEED, to repeat a failure) or a new one; tests print it when they fail. */
export function seed(): number {
  return Number(process.env.SLUICE_SEED || Math.floor(Math.random() * 2 ** 31))
}
