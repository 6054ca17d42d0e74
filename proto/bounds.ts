/**
 * How much one request may hold. Both codecs stop reading at these bounds, so that 4 MiB of nothing (`{},{},…` in JSON,
 * `12 00 12 00 …` in protobuf) cost a caller's bandwidth and not our memory: two million objects and 0.7 s before.
 *
 *     {"domain":"d","descriptors":[{},{},{}, … {}, …]}
 *                                  1  2  3     4,096 │ a request must not have more than 4096 descriptors
 */

/** Descriptors of one request. Changes together with BATCH_SLOTS_MAX of the engine, which cannot take more either. */
export const DESCRIPTORS_MAX = 4_096

/**
 * Entries of all descriptors of one request together: 16 in each of 4,096 descriptors, or all in one. No rule is deeper
 * than 100 levels; a descriptor with more entries matches nothing and is still answered.
 */
export const ENTRIES_MAX = 65_536

/** Levels of dynamic metadata: what can come out of a rule file (500 levels of YAML nodes) and what we add fits. */
export const STRUCT_DEPTH_MAX = 512

export const DESCRIPTORS_BOUND = `a request must not have more than ${DESCRIPTORS_MAX} descriptors`
export const ENTRIES_BOUND = `a request must not have more than ${ENTRIES_MAX} entries in all its descriptors`
