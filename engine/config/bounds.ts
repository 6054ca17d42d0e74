/**
 * Maxima of one configuration load. A load that exceeds one fails as a whole: old rules are better than half of the new.
 *
 *     tree of files ── FILES_MAX, FILE_BYTES_MAX, FILES_BYTES_MAX ──► text
 *     text ── NODE_DEPTH_MAX, EXPANDED_NODES_MAX ──► YAML nodes
 *     YAML nodes ── DESCRIPTORS_MAX, DESCRIPTOR_DEPTH_MAX ──► rules
 *     rules ── LINT_WARNINGS_MAX, LINT_STEPS_MAX ──► lint warnings
 */

/** Files read from one tree. Beyond: error. */
export const FILES_MAX = 10_000

/** Bytes of one file, about 170,000 rules. The parser takes 85 bytes of heap per byte of YAML and holds one file at a
 * time, so this keeps a load below 1.5 GB. Beyond: error; split the domain into several files and merge them. */
export const FILE_BYTES_MAX = 16 * 1024 * 1024

/** Bytes of all files of one load. Beyond: error. */
export const FILES_BYTES_MAX = 64 * 1024 * 1024

/** Depth of YAML nodes, aliases followed. A level of descriptors takes two. The parser recurses and overflows a 1 MB
 * stack at about 900. Beyond: error. */
export const NODE_DEPTH_MAX = 500

/** YAML nodes of one file, with every alias expanded ("billion laughs"). Beyond: error. */
export const EXPANDED_NODES_MAX = 8_000_000

/** Descriptors of one load, all levels, with a limit or without. Beyond: error. */
export const DESCRIPTORS_MAX = 1_000_000

/** Levels of descriptors; also the longest descriptor of a request that can match. Beyond: error. */
export const DESCRIPTOR_DEPTH_MAX = 100

/** Lint warnings of one load. Beyond: counted. */
export const LINT_WARNINGS_MAX = 1_000

/** Comparisons of rules while linting, 0.2 µs each. Beyond: the rest is skipped, with a warning. */
export const LINT_STEPS_MAX = 5_000_000
