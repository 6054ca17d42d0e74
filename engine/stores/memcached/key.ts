/**
 * Counter keys in the form memcached accepts (spec 3.4): 1 to 250 bytes, none of which ends a word or a command.
 * A wire key is a string with one character per byte, so lengths are bytes and nothing is encoded twice.
 */
const KEY_BYTES_MAX = 250

/** The key's UTF-8 bytes, one character each; null if memcached would refuse it. */
export function toWireKey(key: string): string | null {
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

/** A wire key as text, for errors that go to callers; the log never has keys, which contain callers' values. */
export function formatKey(wireKey: string): string {
  return Buffer.from(wireKey, 'latin1').toString()
}
