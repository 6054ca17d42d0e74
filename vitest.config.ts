import { defineConfig } from 'vitest/config'

const isFull = process.env.SLUICE_SIZE === 'full' // npm run soak

export default defineConfig({
  test: {
    pool: 'forks', // the service under test is a child process; uWebSockets.js and worker threads do not mix well
    include: ['test/**/*.test.ts'],
    setupFiles: ['test/helpers/setup.ts'],
    testTimeout: isFull ? 3_600_000 : 30_000,
    hookTimeout: 30_000,
  },
})
