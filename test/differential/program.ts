/** The path of the reference, which is not part of this repository. */

/** '' = not set. */
export const program = process.env.SLUICE_REFERENCE ?? ''

export const ABSENT =
  'no reference to compare with: set SLUICE_REFERENCE to its program (envoyproxy/ratelimit, src/service_cmd)'

if (program === '') console.warn(ABSENT)
