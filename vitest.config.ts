import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'

const isFull = process.env.SLUICE_SIZE === 'full' // npm run soak

/** Tests of the whole service. Each has its own processes, ports (test/helpers/ports.ts) and folders. */
const WHOLE = ['test/{bench,differential,fuzz,system}/**/*.test.ts']

/** Tests that measure speed: other tests beside them would be in the figures. */
const MEASURED = ['test/bench/*.test.ts']
const FULL_MEASURED = WHOLE // the full size adds bounds on latency, and load that takes the whole machine

const alone = isFull ? FULL_MEASURED : MEASURED
const maxWorkers = availableParallelism() + 1 // most tests wait for a process most of the time

export default defineConfig({
  test: {
    pool: 'forks', // the service under test is a child process; uWebSockets.js and worker threads do not mix well
    setupFiles: ['test/helpers/setup.ts'],
    testTimeout: isFull ? 3_600_000 : 120_000, // only a test that hangs takes so long
    hookTimeout: 120_000,
    projects: [
      {
        extends: true,
        test: {
          name: 'parts',
          include: ['test/**/*.test.ts'],
          exclude: [...configDefaults.exclude, ...WHOLE],
          maxWorkers,
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: {
          name: 'whole',
          include: WHOLE,
          exclude: [...configDefaults.exclude, ...alone],
          maxWorkers, // one group with `parts`, so no core idles while the last of them ends
          sequence: { groupOrder: 0 },
        },
      },
      {
        extends: true,
        test: { name: 'alone', include: alone, maxWorkers: 1, sequence: { groupOrder: 1 } },
      },
    ],
  },
})
