/**
 * Tasks by due time: a binary heap that can also move and remove items in the middle.
 *
 *         first (due soonest)        every item is due no later than the two below it,
 *         /     \                    and knows its own place, so moving it costs log n
 *       …         …
 */

export interface HeapItem {
  dueMs: number // changed only through put()
  heapIndex: number // -1 = not in a heap; written by the heap only
}

export class DueHeap<T extends HeapItem> {
  private readonly items: T[] = []

  get size(): number {
    return this.items.length
  }

  first(): T | undefined {
    return this.items[0]
  }

  /** Inserts the item, or moves it if it is in the heap. */
  put(item: T, dueMs: number): void {
    item.dueMs = dueMs
    if (item.heapIndex < 0) item.heapIndex = this.items.push(item) - 1
    this.down(this.up(item.heapIndex))
  }

  /** Does nothing if the item is not in a heap. */
  remove(item: T): void {
    const index = item.heapIndex
    if (index < 0) return
    const last = this.items.pop()!
    item.heapIndex = -1
    if (last === item) return
    this.set(index, last)
    this.down(this.up(index))
  }

  private up(start: number): number {
    let index = start
    while (index > 0) {
      const parent = (index - 1) >> 1
      if (this.items[parent].dueMs <= this.items[index].dueMs) break
      this.swap(index, parent)
      index = parent
    }
    return index
  }

  private down(start: number): void {
    let index = start
    while (true) {
      const left = 2 * index + 1
      if (left >= this.items.length) return
      const right = left + 1
      const hasSooner = right < this.items.length && this.items[right].dueMs < this.items[left].dueMs
      const child = hasSooner ? right : left
      if (this.items[index].dueMs <= this.items[child].dueMs) return
      this.swap(index, child)
      index = child
    }
  }

  private swap(a: number, b: number): void {
    const item = this.items[a]
    this.set(a, this.items[b])
    this.set(b, item)
  }

  private set(index: number, item: T): void {
    this.items[index] = item
    item.heapIndex = index
  }
}
