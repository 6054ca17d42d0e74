/** Where the reference is: never part of this repository, given by whoever wants the comparison. */

/** '' = not given. */
export const program = process.env.SLUICE_REFERENCE ?? ''

export const ABSENT =
  'no reference to compare with: set SLUICE_REFERENCE to its program (envoyproxy/ratelimit, src/service_cmd)'

if (program === '') console.warn(ABSENT)
