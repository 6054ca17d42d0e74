/**
 * All limits of outgoing connections (spec 5, points 3, 7, 9 and 12). One table, so that a test can shorten a wait and an
 * operator can see what a target may cost: at most 34 s and about 8 MiB of wire per hop, four hops.
 */

export const LIMITS = {
  dnsMs: 4_000, // the whole lookup, A and AAAA together
  dnsTryMs: 2_000, // one query to one name server
  dnsTries: 2,
  connectMs: 5_000,
  connectTries: 3, // addresses of one name, dialled one after another within connectMs
  tlsMs: 5_000,
  firstByteMs: 10_000, // from the request to the end of the response's head
  bodyMs: 10_000,
  headBytes: 65_536, // all heads of one response, 100 Continue and the like included
  bodyBytes: 262_144, // after decompression
  listingBytes: 1_048_576, // the same for LISTING_PATHS, which have thousands of entries
  wirePerBodyByte: 8, // a body in chunks of one byte needs six times its size; chunk extensions could be endless
  decompressionRatio: 100,
  redirects: 3,
  urlChars: 2_048,
  addressesMax: 64, // of one name, A and AAAA together; more is dns_bogus
  addressesReported: 8, // addresses returned to the caller; all are checked
  names: 50, // of one certificate
  sessionConnections: 4, // kept for one probe; beyond, the oldest is closed
  stallMs: 1_000, // a hop during which this thread was stalled for as long is no evidence
  denialStepMs: 1_000, // a denial after DNS is delayed to a multiple of this, which hides the resolver's view
}
export type Limits = typeof LIMITS

/** Suffixes of paths whose bodies may have `listingBytes`. */
export const LISTING_PATHS = ['/v1/models', '/api/pricing']
