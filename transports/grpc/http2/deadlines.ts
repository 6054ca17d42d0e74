/**
 * The deadlines of calls: a timing wheel, so that a call costs a few pointers instead of a timer.
 *
 *     slot   0    1    2    3  ...  511     TICK_MS each, then round again
 *            ○    ○    ○    ○        ○
 *            │         └─ call ─ call       a doubly linked list: constant time to add and to remove
 *            └─ call
 *
 * One timer advances the wheel while it has entries. A deadline of a later round stays in its slot. Deadlines fire up to
 * two ticks late, never early; the system clock may be set meanwhile.
 */
const TICK_MS = 10
const SLOTS = 512 // a power of two; 5 s, longer than nearly every deadline

export class Deadline {
  deadlineMs = Number.POSITIVE_INFINITY // by performance.now()
  previous: Deadline | null = null
  next: Deadline | null = null

  /** Called once, when the entry has left the wheel. */
  onDeadline(): void {}
}

export class Deadlines {
  private readonly slots: Deadline[] = Array.from({ length: SLOTS }, createRing)
  private count = 0
  private advancedMs = 0
  private timer: NodeJS.Timeout | null = null

  add(entry: Deadline, nowMs: number): void {
    const dueMs = Math.max(entry.deadlineMs, nowMs) // a slot already passed would wait a whole round
    const slot = this.slots[Math.ceil(dueMs / TICK_MS) & (SLOTS - 1)]
    const last = slot.previous!
    entry.previous = last
    entry.next = slot
    last.next = entry
    slot.previous = entry
    this.count++
    if (this.timer === null) this.start(nowMs)
  }

  /** Does nothing for an entry that is not in the wheel. */
  remove(entry: Deadline): void {
    if (entry.next === null) return
    entry.previous!.next = entry.next
    entry.next.previous = entry.previous
    entry.previous = null
    entry.next = null
    this.count--
  }

  /** Fires the deadlines that are due. */
  advance(nowMs: number): void {
    const last = Math.floor(nowMs / TICK_MS)
    const first = Math.max(Math.floor(this.advancedMs / TICK_MS), last - SLOTS + 1)
    this.advancedMs = nowMs
    for (let tick = first; tick <= last; tick++) this.fire(this.slots[tick & (SLOTS - 1)], nowMs)
  }

  close(): void {
    if (this.timer !== null) clearTimeout(this.timer)
    this.timer = null
  }

  private fire(slot: Deadline, nowMs: number): void {
    let entry = slot.next!
    while (entry !== slot) {
      const following = entry.next!
      if (entry.deadlineMs <= nowMs) {
        this.remove(entry)
        entry.onDeadline() // may remove others; then the list is read from its start
        entry = following.next === null ? slot.next! : following
      } else entry = following
    }
  }

  private start(nowMs: number): void {
    this.advancedMs = nowMs
    this.timer = setTimeout(() => {
      this.timer = null
      const now = performance.now()
      this.advance(now)
      if (this.count > 0 && this.timer === null) this.start(now)
    }, TICK_MS).unref()
  }
}

function createRing(): Deadline {
  const slot = new Deadline()
  slot.previous = slot
  slot.next = slot
  return slot
}
