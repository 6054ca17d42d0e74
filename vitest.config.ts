import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'

const isFull = process.env.SLUICE_SIZE === 'full' // npm run soak

/** Tests that load a whole service or measure one: each has the machine to itself, after all others. */
const LOADING = ['test/{bench,differential,fuzz,system}/**/*.test.ts']

export default defineConfig({
  test: {
    pool: 'forks', // the service under test is a child process; uWebSockets.js and worker threads do not mix well
    setupFiles: ['test/helpers/setup.ts'],
    testTimeout: isFull ? 3_600_000 : 30_000,
    hookTimeout: 30_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...LOADING],
          maxWorkers: availableParallelism(), // most of them wait most of the time
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'whole', include: LOADING, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
})
