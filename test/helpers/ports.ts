/**
 * Free TCP ports of 127.0.0.1 that no other test takes before they are used.
 *
 *     10,081             each worker of vitest has its own part              32,080   32,768      ephemeral ports
 *        ├── worker 1 ──┼── worker 2 ──┼── … ──┼── worker 16 ───────────────────┤        ├── port 0, outgoing …
 *
 * A port that the kernel chooses (port 0) may be given to an outgoing connection or to another process as soon as its
 * socket is closed; a port below the ephemeral range may not. A test file starts at a random place of its part, so that
 * two runs on one machine rarely meet, and does not get the same port twice.
 */
import { createServer } from 'node:net'

const FIRST = 10_081 // fetch refuses 10080, and test/helpers/envoy.ts replaces 10000 and 10001 in examples/envoy
const PARTS = 16 // vitest workers beyond this share a part with another one
const PART_PORTS = 1_375

const part = Number(process.env.VITEST_POOL_ID ?? 0) % PARTS // 1 to maxWorkers
let next = Math.floor(Math.random() * PART_PORTS)

export async function freePort(): Promise<number> {
  for (let tries = 0; tries < PART_PORTS; tries++) {
    const port = FIRST + part * PART_PORTS + next
    next = (next + 1) % PART_PORTS
    if (await isFree(port)) return port
  }
  throw new Error(`every port of ${PART_PORTS} is in use`)
}

function isFree(port: number): Promise<boolean> {
  return new Promise((resolve, reject) => {
    const server = createServer()
    server.once('error', (error: NodeJS.ErrnoException) =>
      error.code === 'EADDRINUSE' || error.code === 'EACCES' ? resolve(false) : reject(error),
    )
    server.listen(port, '127.0.0.1', () => server.close(() => resolve(true)))
  })
}
