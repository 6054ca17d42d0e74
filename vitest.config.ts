import { defineConfig } from 'vitest/config'

export default defineConfig({
  test: {
    pool: 'forks', // the service under test is a child process; uWebSockets.js and worker threads do not mix well
    include: ['test/**/*.test.ts'],
    testTimeout: 30_000,
    hookTimeout: 30_000,
  },
})
