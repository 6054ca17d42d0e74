/**
 * Wrong API keys by address (spec 4.4): 20 in 10 minutes, and for the rest of these minutes a key from there is not even
 * looked at. So a key cannot be tried out faster, and whoever merely shares the address still reads without a key.
 */
export const WRONG_KEYS_WINDOW_SEC = 600
export const WRONG_KEYS_MAX = 20
const ADDRESSES_MAX = 10_000 // beyond, all are forgiven at once: 300 kB are not worth a finer rule

export class WrongKeys {
  private counts = new Map<string, number>()
  private windowStartSec = 0

  /** Epoch second at which keys from this address are looked at again; 0 = they are. */
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
