/** Stops and continues a server that accepts connections and never replies meanwhile, as a machine that hangs does. */
import { readdirSync, readFileSync } from 'node:fs'
import { eventually } from './eventually.ts'
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

/**
 * Resolves when every thread has stopped: one of them takes the signal, and on a busy machine the others serve until it has. Resumes
 * also when the test process ends, so that the server can be killed.
 */
async function pause(pid: number): Promise<Paused> {
  let isPaused = true
  const resume = () => {
    if (isPaused) process.kill(pid, 'SIGCONT')
    isPaused = false
    process.off('exit', resume)
  }
  process.kill(pid, 'SIGSTOP')
  process.once('exit', resume)
  if (process.platform === 'linux') await eventually(() => checkStopped(pid))
  return { resume }
}

function checkStopped(pid: number): void {
  for (const thread of readdirSync(`/proc/${pid}/task`)) {
    const stat = readFileSync(`/proc/${pid}/task/${thread}/stat`, 'utf8') // pid (name) state …
    if (!stat.slice(stat.lastIndexOf(')')).startsWith(') T'))
      throw new Error(`thread ${thread} of ${pid} still runs`)
  }
}
