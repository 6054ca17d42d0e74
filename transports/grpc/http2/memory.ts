/**
 * Memory of large buffers goes back now, not with some later garbage collection: a thread that is idle after a flood has
 * none for hours.
 */
const FREED_BYTES_MIN = 1_024 // less is not worth it

/** `bytes` must own its memory, and may be read until this turn of the event loop ends. */
export function free({ buffer, length }: Buffer): void {
  if (length >= FREED_BYTES_MIN) setImmediate(detach, buffer)
}

function detach(buffer: object): void {
  const { transfer } = buffer as { transfer?: (bytes: number) => unknown }
  transfer?.call(buffer, 0)
}
