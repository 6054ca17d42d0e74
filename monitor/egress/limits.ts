/**
 * Where everything that reaches out ends (spec 5, points 3, 7, 9 and 12). One table, so that a test can shorten a wait
 * and an operator can read what a target may cost us: at most 34 s and about 8 MiB of wire per hop, four hops.
 */

export const LIMITS = {
  dnsMs: 4_000, // the whole look-up, A and AAAA together
  dnsTryMs: 2_000, // one question to one name server
  dnsTries: 2,
  connectMs: 5_000,
  connectTries: 3, // addresses of one name tried one after another, all within connectMs
  tlsMs: 5_000,
  firstByteMs: 10_000, // from the request until its whole head is here
  bodyMs: 10_000,
  headBytes: 65_536, // all heads of one answer, 100 Continue and its like included
  bodyBytes: 262_144, // after decompression
  listingBytes: 1_048_576, // the same for the paths below, whose answers are lists of thousands
  wirePerBodyByte: 8, // a body in chunks of one byte needs six times its size; chunk extensions could be endless
  decompressionRatio: 100,
  redirects: 3,
  urlChars: 2_048,
  answersMax: 64, // of one name, A and AAAA together; more is dns_bogus
  answers: 8, // addresses told to the caller; all are checked
  names: 50, // of one certificate
  sessionConnections: 4, // kept for one probe; beyond: the oldest is closed
  stallMs: 1_000, // this thread stood still for as long during one hop: its failure does not count
  denialStepMs: 1_000, // a denial after DNS is told at a whole multiple of this, so the resolver's view does not show
}
export type Limits = typeof LIMITS

/** Endings of paths whose answers may be as long as `listingBytes`. */
export const LISTING_PATHS = ['/v1/models', '/api/pricing']
