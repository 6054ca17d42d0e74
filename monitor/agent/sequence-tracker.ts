/**
 * The highest sequence number that was taken of each agent, also over restarts: what is at or below it came before.
 *
 *     results ─► probes, then the number ─► the store's queue, in this order      killed in between: taken again, and a
 *                                                                                probe of the same second is ignored
 *
 * Belongs to the token: a new one begins at 0, so nobody can spoil the numbers of an agent for good. A stored number above
 * SEQUENCE_MAX (versions before the bound took any) begins at 0, too.
 */
import type { StoredAgent } from '../storage/snapshot.ts'
import type { Store } from '../storage/store.ts'
import { SEQUENCE_MAX } from './wire.ts'

const TOKEN_CHARS = 16 // of its hash; tells tokens of one vantage apart

interface LastSequence {
  token: string
  sequence: number
}

export class SequenceTracker {
  private readonly store: Pick<Store, 'read' | 'write'>
  private readonly noted = new Map<number, LastSequence>() // by vantage

  constructor(store: Pick<Store, 'read' | 'write'>) {
    this.store = store
  }

  /** Once per agent and start of the server. */
  async load(agent: StoredAgent): Promise<void> {
    const { vantageId } = agent
    if (this.noted.has(vantageId)) return
    const text = await this.store.read('meta', metaKey(agent))
    // Another request may have been faster, and have gone on since.
    if (this.noted.has(vantageId)) return
    const noted: LastSequence = text === null ? { token: '', sequence: 0 } : JSON.parse(text)
    if (noted.sequence > SEQUENCE_MAX) noted.sequence = 0
    this.noted.set(vantageId, noted)
  }

  /** After `load`. */
  getLast(agent: StoredAgent): number {
    const { token, sequence } = this.noted.get(agent.vantageId)!
    return token === tokenFingerprint(agent) ? sequence : 0
  }

  record(agent: StoredAgent, sequence: number): void {
    if (this.getLast(agent) === sequence) return
    const noted = { token: tokenFingerprint(agent), sequence }
    this.noted.set(agent.vantageId, noted)
    this.store.write({ kind: 'meta', key: metaKey(agent), value: JSON.stringify(noted) })
  }
}

function metaKey({ vantageId }: StoredAgent): string {
  return `agent-accepted-${vantageId}`
}

function tokenFingerprint({ tokenHash }: StoredAgent): string {
  return tokenHash.slice(0, TOKEN_CHARS)
}
