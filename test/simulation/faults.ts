/** Makes the faults of a plan happen. */
import type { MemcachedModel } from './memcached-model.ts'
import type { Server, Trace } from './network.ts'
import type { PlannedFault } from './plan.ts'
import { RedisModel } from './redis-model.ts'
import { NO_CHANNEL, type VirtualTime } from './virtual-time.ts'

export interface FaultySurroundings {
  time: VirtualTime
  servers: readonly Server[]
  models: readonly (RedisModel | MemcachedModel)[]
  trace: Trace
  /** Puts the next version of the rules in force. */
  reload: () => void
  /** Some server has forgotten keys. */
  onReset: () => void
}

export function scheduleFault(fault: PlannedFault, startMs: number, around: FaultySurroundings): void {
  const { time, trace } = around
  const { begin, end } = getActions(fault, around)
  const name = around.servers[fault.server].name
  const onBegin = () => {
    trace?.(`fault: ${fault.kind} ${name} ${describe(fault)}`)
    begin()
  }
  if (fault.kind === 'stall' || fault.kind === 'reload')
    time.arrive(startMs + fault.atMs, NO_CHANNEL, onBegin)
  else time.happen(startMs + fault.atMs, onBegin)
  if (end === NOTHING) return
  time.happen(startMs + fault.endMs, () => {
    trace?.(`fault ends: ${fault.kind} ${name}`)
    end()
  })
}

export function describe({ kind, amount, error, commands, atMs, endMs }: PlannedFault): string {
  const forMs = endMs > atMs ? `for ${(endMs - atMs).toFixed(1)} ms` : ''
  if (kind === 'errors') return `${forMs}, ${amount} of ${commands.join(' ') || 'all commands'}: ${error}`
  if (kind === 'slow' || kind === 'step clock') return `${forMs} by ${amount} ms`
  if (kind === 'evict') return `a share of ${amount}`
  return kind === 'down' ? `${forMs}${amount > 0 ? ', its data is lost' : ''}` : forMs
}

const NOTHING = () => {}

/** What a fault does to its server; faults of one kind do not add up, the first end ends them. */
function getActions(fault: PlannedFault, around: FaultySurroundings): { begin: () => void; end: () => void } {
  const { time, reload } = around
  const server = around.servers[fault.server]
  const model = around.models[fault.server]
  switch (fault.kind) {
    case 'pause':
      return hold(server, 'isPaused')
    case 'partition':
      return hold(server, 'isPartitioned')
    case 'slow':
      return setUntil((ms) => (server.delayMs = ms), fault.amount)
    case 'cut':
      return { begin: () => (server.isMute = true), end: () => cut(server) }
    case 'lost':
      return { begin: () => server.loseAll(), end: () => server.resetLost() }
    case 'down':
      return { begin: () => stop(fault, around), end: () => (server.isDown = false) }
    case 'errors':
      return fail(model, fault)
    case 'stall':
      return { begin: () => time.stall(fault.endMs - fault.atMs), end: NOTHING }
    case 'reload':
      return { begin: reload, end: NOTHING }
    case 'flush scripts':
      return { begin: () => model instanceof RedisModel && model.flushScripts(), end: NOTHING }
    case 'step clock':
      return { begin: () => time.stepWallClock(fault.amount), end: NOTHING }
    case 'evict':
      return { begin: () => evict(fault, around), end: NOTHING }
  }
}

function hold(server: Server, flag: 'isPaused' | 'isPartitioned') {
  return {
    begin: () => {
      server[flag] = true
    },
    end: () => {
      server[flag] = false
      server.release()
    },
  }
}

function setUntil(set: (ms: number) => void, ms: number) {
  return { begin: () => set(ms), end: () => set(0) }
}

/** Commands have run, their replies are lost. */
function cut(server: Server): void {
  server.cutAll()
  server.isMute = false
  server.release()
}

/** The process ends, and its connections with it. */
function stop(
  { server: index, amount }: PlannedFault,
  { servers, models, onReset }: FaultySurroundings,
): void {
  servers[index].isDown = true
  servers[index].cutAll()
  if (amount === 0) return
  models[index].restart()
  onReset()
}

function evict({ server, amount }: PlannedFault, { models, onReset }: FaultySurroundings): void {
  models[server].evict(amount)
  onReset()
}

function fail(model: RedisModel | MemcachedModel, { error, commands, amount }: PlannedFault) {
  if (!(model instanceof RedisModel)) return setUntil((share) => (model.failingShare = share), amount)
  return {
    begin: () => {
      model.failing = { text: error, commands, share: amount }
    },
    end: () => {
      model.failing = null
    },
  }
}
