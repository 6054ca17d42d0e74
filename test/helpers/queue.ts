/** Items in order of arrival. `next` takes the first, or waits for one. */
export class Queue<T> {
  private readonly items: T[] = []
  private readonly readers: ((item: T) => void)[] = []

  add(item: T): void {
    const reader = this.readers.shift()
    if (reader) reader(item)
    else this.items.push(item)
  }

  next(): Promise<T> {
    if (this.items.length > 0) return Promise.resolve(this.items.shift()!)
    return new Promise((resolve) => this.readers.push(resolve))
  }

  /** Items that have not been taken. */
  get length(): number {
    return this.items.length
  }
}
