/**
 * The processor time that process trees on this machine have used, from /proc (Linux).
 *
 *     /proc/<pid>/task/<tid>/schedstat   nanoseconds run, per thread; lost when the thread ends
 *     /proc/<pid>/stat                   user and system time in ticks of 10 ms, children that ended included
 *
 * The first is used if all threads of the start still run, else the second.
 */
import { readdirSync, readFileSync } from 'node:fs'
import { ConfigurationError } from '../../engine/runtime/errors.ts'

const TICK_MS = 10 // USER_HZ is 100 on every Linux that Node runs on
const BUSY_FIELDS = [0, 1, 2, 5, 6, 7] // user, nice, system, irq, softirq, steal
const CHILDREN_DEPTH_MAX = 16

export interface Group {
  name: string
  pids: number[]
  given?: string // on the command line
}

/** One moment of one group. */
export interface CpuReading {
  threads: Map<string, number> // `pid/tid` → ns
  ticks: number
}

/** Finds the child processes once, so that `read` is fast enough to run beside a load. */
export class CpuMeter {
  readonly name: string
  private readonly pids: Set<number>

  constructor({ name, pids, given }: Group) {
    for (const pid of pids) {
      if (stat(pid) !== null) continue
      const what = `there is no process ${pid} on this machine.`
      throw new ConfigurationError({
        code: 'LOAD_PID',
        where: given ?? `--cpu ${name}=${pid}`,
        what,
        fix: 'See `pgrep -a`.',
      })
    }
    this.name = name
    this.pids = listTree(pids)
  }

  read(): CpuReading {
    const reading: CpuReading = { threads: new Map(), ticks: 0 }
    for (const pid of this.pids) {
      reading.ticks += stat(pid)?.ticks ?? 0
      for (const thread of list(`/proc/${pid}/task`)) {
        const text = read(`/proc/${pid}/task/${thread}/schedstat`)
        if (text !== null) reading.threads.set(`${pid}/${thread}`, Number(text.split(' ')[0]))
      }
    }
    return reading
  }
}

/** Milliseconds of processor time between two readings. */
export function cpuMs(before: CpuReading, after: CpuReading): number {
  let ns = 0
  for (const [thread, started] of before.threads) {
    const ended = after.threads.get(thread)
    if (ended === undefined) return (after.ticks - before.ticks) * TICK_MS
    ns += ended - started
  }
  if (before.threads.size === 0) return (after.ticks - before.ticks) * TICK_MS
  for (const [thread, used] of after.threads) if (!before.threads.has(thread)) ns += used
  return ns / 1e6
}

/** Milliseconds that all cores together have worked since the machine started; 0 where that is unknown. */
export function machineMs(): number {
  const [, ...ticks] = (read('/proc/stat') ?? '').split('\n')[0].trim().split(/ +/)
  const busy = BUSY_FIELDS.map((i) => Number(ticks[i] ?? 0))
  return busy.reduce((sum, each) => sum + each, 0) * TICK_MS
}

/** The given processes and all below them. */
function listTree(pids: number[]): Set<number> {
  const parents = new Map<number, number>()
  for (const name of list('/proc')) {
    const pid = Number(name)
    if (pid > 0) parents.set(pid, stat(pid)?.parent ?? 0)
  }
  const found = new Set(pids)
  for (let depth = 0; depth < CHILDREN_DEPTH_MAX; depth++) {
    const before = found.size
    for (const [pid, parent] of parents) if (found.has(parent)) found.add(pid)
    if (found.size === before) break
  }
  return found
}

/** Null if there is no such process. Its name may contain anything, so fields count from the closing bracket. */
function stat(pid: number): { parent: number; ticks: number } | null {
  const text = read(`/proc/${pid}/stat`)
  if (text === null) return null
  const fields = text.slice(text.lastIndexOf(')') + 2).split(' ') // fields[0] is the third of proc(5)
  return { parent: Number(fields[1]), ticks: [11, 12, 13, 14].reduce((sum, i) => sum + Number(fields[i]), 0) }
}

function read(path: string): string | null {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return null // the process has ended
  }
}

function list(path: string): string[] {
  try {
    return readdirSync(path)
  } catch {
    return []
  }
}
