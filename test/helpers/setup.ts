/** Runs before each test file: properties use the seed of the run, and print it when they fail. */
import fc from 'fast-check'
import { seed } from './size.ts'

fc.configureGlobal({ seed: seed() })
