/**
 * Piscina task: loads rules off the main thread and off the serving ones. 100,000 rules are a second or two of parsing
 * and hundreds of MB of heap, which go when the job's thread goes.
 */
import { loadRules } from './load.ts'

export default loadRules
