/**
 * Counts wrong API keys by address (spec 4.4). After 20 within 10 minutes, keys from that address are refused unchecked until
 * the 10 minutes end, which slows guessing. Requests without a key are not affected.
 */
export const WRONG_KEYS_WINDOW_SEC = 600
export const WRONG_KEYS_MAX = 20
const ADDRESSES_MAX = 10_000 // about 300 kB; beyond, all counts are dropped

export class WrongKeys {
  private counts = new Map<string, number>()
  private windowStartSec = 0

  /** Epoch second from which keys of this address are checked again; 0 = now. */
  blockedUntilSec(ip: string, nowSec: number): number {
    this.turn(nowSec)
    return (this.counts.get(ip) ?? 0) >= WRONG_KEYS_MAX ? this.windowStartSec + WRONG_KEYS_WINDOW_SEC : 0
  }

  add(ip: string, nowSec: number): void {
    this.turn(nowSec)
    if (this.counts.size >= ADDRESSES_MAX) this.counts.clear()
    this.counts.set(ip, (this.counts.get(ip) ?? 0) + 1)
  }

  private turn(nowSec: number): void {
    const startSec = nowSec - (nowSec % WRONG_KEYS_WINDOW_SEC)
    if (startSec === this.windowStartSec) return
    this.windowStartSec = startSec
    this.counts = new Map()
  }
}
