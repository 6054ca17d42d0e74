/** Blocks this thread as a slow regular expression does: no timer runs, no socket is read. */
export function standStill(ms: number): void {
  const untilMs = performance.now() + ms
  while (performance.now() < untilMs);
}
