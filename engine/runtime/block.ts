/** Blocks this thread without using a core: no timer runs, no socket is read. */
const cell = new Int32Array(new SharedArrayBuffer(4)) // never written, so a wait on it ends by its timeout

export function block(ms: number): void {
  Atomics.wait(cell, 0, 0, ms)
}
