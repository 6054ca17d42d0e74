/**
 * Maxima of one request. Both codecs stop reading at these bounds; without them, 4 MiB of empty descriptors (`{},{},…` in
 * JSON, `12 00 12 00 …` in protobuf) would become two million objects in 0.7 s.
 *
 *     {"domain":"d","descriptors":[{},{},{}, … {}, …]}
 *                                  1  2  3     4,096 │ a request must not have more than 4096 descriptors
 */

/** Descriptors of one request. Changes together with BATCH_SLOTS_MAX of the engine, which has the same maximum. */
export const DESCRIPTORS_MAX = 4_096

/**
 * Entries of all descriptors of one request together: 16 in each of 4,096 descriptors, or all in one. No rule is deeper
 * than 100 levels; a descriptor with more entries matches no rule, and is not an error.
 */
export const ENTRIES_MAX = 65_536

/** Levels of dynamic metadata; enough for a rule file (500 levels of YAML nodes) and the levels added in a response. */
export const STRUCT_DEPTH_MAX = 512

export const DESCRIPTORS_BOUND = `a request must not have more than ${DESCRIPTORS_MAX} descriptors`
export const ENTRIES_BOUND = `a request must not have more than ${ENTRIES_MAX} entries in all its descriptors`
