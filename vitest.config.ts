import { availableParallelism } from 'node:os'
import { configDefaults, defineConfig } from 'vitest/config'

const isFull = process.env.SLUICE_SIZE === 'full' // npm run test:full

/** Tests of the whole service. Each file has its own processes, ports (test/helpers/ports.ts) and folders. */
const WHOLE = ['test/{bench,differential,fuzz,system}/**/*.test.ts']

/** Tests that leave nothing behind: files share a process, which saves 0.25 s of processor time per file. */
const PURE = [
  'test/{proto,monitor/{api,egress,evaluation,probe,scheduler,scoring}}/**/*.test.ts',
  'test/{engine/{decision,match,settings},transports/grpc/http2}/**/*.test.ts',
]

const pure = { name: 'pure', include: PURE, isolate: false }
const parts = {
  name: 'parts',
  include: ['test/**/*.test.ts'],
  exclude: [...configDefaults.exclude, ...WHOLE, ...PURE],
}
const whole = { name: 'whole', include: WHOLE }

// Most tests wait for processes most of the time.
const together = { maxWorkers: 2 * availableParallelism(), sequence: { groupOrder: 0 } }

// The full size bounds latency and uses the whole machine: one file at a time, after all others.
const alone = { maxWorkers: 1, sequence: { groupOrder: 1 } }

export default defineConfig({
  test: {
    pool: 'forks', // the service under test is a child process; uWebSockets.js and worker threads do not mix well
    globalSetup: ['test/helpers/build.ts'],
    setupFiles: ['test/helpers/setup.ts'],
    testTimeout: isFull ? 3_600_000 : 120_000, // only a test that hangs takes so long
    hookTimeout: 120_000,
    projects: [
      { extends: true, test: { ...pure, ...together } },
      { extends: true, test: { ...parts, ...together } },
      { extends: true, test: { ...whole, ...(isFull ? alone : together) } },
    ],
  },
})
