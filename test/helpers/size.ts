/**
 * How much a test does, and from which random numbers.
 *
 *     npm test                           small sizes, always the same seed: red means that something changed
 *     npm run test:full                  full sizes, a new seed each time, printed
 *     SLUICE_SEED=17 npm run test:full   that seed again
 */
export { seeded, size } from '../../bench/size.ts'

const FIXED_SEED = 20_261_120

/** The seed of this run. */
export function seed(): number {
  if (process.env.SLUICE_SEED) return Number(process.env.SLUICE_SEED)
  return process.env.SLUICE_SIZE === 'full' ? Math.floor(Math.random() * 2 ** 31) : FIXED_SEED
}
