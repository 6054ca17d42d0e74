/** Any code point, lone surrogates included. The unit 'binary' of fast-check is the same and takes a second to create. */
import fc from 'fast-check'

/** For `fc.string({ unit: anyCharacter })`. */
export const anyCharacter = fc
  .integer({ min: 0, max: 0x10ffff })
  .map((codePoint) => String.fromCodePoint(codePoint))
