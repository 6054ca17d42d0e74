/**
 * The highest sequence number accepted from each agent, kept in the store: a result at or below it is a repetition.
 *
 *     results ─► probes, then the number ─► the store's queue, in this order
 *
 * If the process is killed in between, the agent sends the probes again and the store ignores those it has. The number
 * belongs to the token: a new token starts at 0, so a stolen one cannot use up the numbers of a vantage. A stored number
 * above SEQUENCE_MAX (written before that bound existed) counts as 0.
 */
import type { StoredAgent } from '../storage/snapshot.ts'
import type { Store } from '../storage/store.ts'
import { SEQUENCE_MAX } from './wire.ts'

const TOKEN_CHARS = 16 // of the token's hash: enough to distinguish the tokens of one vantage

interface LastSequence {
  token: string
  sequence: number
}

export class SequenceTracker {
  private readonly store: Pick<Store, 'read' | 'write'>
  private readonly last = new Map<number, LastSequence>() // by vantage

  constructor(store: Pick<Store, 'read' | 'write'>) {
    this.store = store
  }

  /** Reads the store once per agent; must come before `getLast` and `record`. */
  async load(agent: StoredAgent): Promise<void> {
    const { vantageId } = agent
    if (this.last.has(vantageId)) return
    const text = await this.store.read('meta', metaKey(agent))
    // A concurrent request may have loaded the number, and raised it since.
    if (this.last.has(vantageId)) return
    const last: LastSequence = text === null ? { token: '', sequence: 0 } : JSON.parse(text)
    if (last.sequence > SEQUENCE_MAX) last.sequence = 0
    this.last.set(vantageId, last)
  }

  getLast(agent: StoredAgent): number {
    const { token, sequence } = this.last.get(agent.vantageId)!
    return token === tokenFingerprint(agent) ? sequence : 0
  }

  record(agent: StoredAgent, sequence: number): void {
    if (this.getLast(agent) === sequence) return
    const last = { token: tokenFingerprint(agent), sequence }
    this.last.set(agent.vantageId, last)
    this.store.write({ kind: 'meta', key: metaKey(agent), value: JSON.stringify(last) })
  }
}

function metaKey({ vantageId }: StoredAgent): string {
  return `agent-accepted-${vantageId}`
}

function tokenFingerprint({ tokenHash }: StoredAgent): string {
  return tokenHash.slice(0, TOKEN_CHARS)
}
