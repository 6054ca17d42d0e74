/** Stops and continues a server that accepts connections and never replies meanwhile, as a machine that hangs does. */
import type { MemcachedServer } from './memcached.ts'
import type { RedisServer } from './redis.ts'

export interface Paused {
  resume(): void
}

export async function pauseRedis(redis: RedisServer): Promise<Paused> {
  return pause(Number(/process_id:(\d+)/.exec(String(await redis.run('INFO', 'server')))?.[1]))
}

export async function pauseMemcached(memcached: MemcachedServer): Promise<Paused> {
  return pause(Number(/STAT pid (\d+)/.exec(await memcached.run('stats'))?.[1]))
}

/** Resumes also when the test process ends, so that the server can be killed. */
function pause(pid: number): Paused {
  let isPaused = true
  const resume = () => {
    if (isPaused) process.kill(pid, 'SIGCONT')
    isPaused = false
    process.off('exit', resume)
  }
  process.kill(pid, 'SIGSTOP')
  process.once('exit', resume)
  return { resume }
}
