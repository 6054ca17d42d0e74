/** Vitest as Stryker runs it: the tests of one run (scopes.ts) in one process, in the order of the list. */
import { join } from 'node:path'
import { defineConfig } from 'vitest/config'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** JSON: test files relative to the root, quick ones first. */
const TESTS: string[] = JSON.parse(process.env.SLUICE_MUTATION_TESTS ?? '[]')

/** Vitest would run the longest file first, but the first failure ends a mutant. */
class QuickFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]): Promise<TestSpecification[]> {
    const rank = ({ moduleId }: TestSpecification) => TESTS.findIndex((test) => moduleId.endsWith(`/${test}`))
    return [...files].sort((a, b) => rank(a) - rank(b))
  }
}

export default defineConfig({
  test: {
    root: join(import.meta.dirname, '../..'),
    include: TESTS,
    setupFiles: ['test/helpers/setup.ts'],
    testTimeout: 120_000, // Stryker's own time-out is shorter
    hookTimeout: 120_000,
    isolate: false,
    sequence: { sequencer: QuickFirst },
  },
})
