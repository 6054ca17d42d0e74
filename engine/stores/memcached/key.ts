/**
 * Counter keys as memcached takes them (spec 3.4): 1 to 250 bytes, none that could end a word or a command.
 * On its way a key is a string with a character per byte, so lengths are bytes and nothing is encoded twice.
 */
const KEY_BYTES_MAX = 250
const KEYS_SHOWN_MAX = 8

/** The key's UTF-8 bytes, a character each; null when memcached would not take it. */
export function wireKey(key: string): string | null {
  if (key.length === 0 || key.length > KEY_BYTES_MAX) return null
  let isAscii = true
  for (let i = 0; i < key.length; i++) {
    const code = key.charCodeAt(i)
    if (code <= 0x20 || code === 0x7f) return null
    if (code > 0x7f) isAscii = false
  }
  if (isAscii) return key
  const bytes = Buffer.from(key)
  return bytes.length > KEY_BYTES_MAX ? null : bytes.toString('latin1')
}

/** A key from the wire, for people. */
export function shownKey(wire: string): string {
  return Buffer.from(wire, 'latin1').toString()
}

/** Some keys from the wire, for people. */
export function shownKeys(wires: string[]): string {
  const shown = wires.slice(0, KEYS_SHOWN_MAX).map(shownKey).join(' ')
  return wires.length > KEYS_SHOWN_MAX ? `${shown} and ${wires.length - KEYS_SHOWN_MAX} more` : shown
}

/** A key that memcached would not take: caller text of any length, with anything in it. */
export function shownBadKey(key: string): string {
  return JSON.stringify(key.slice(0, KEY_BYTES_MAX + 1))
}
