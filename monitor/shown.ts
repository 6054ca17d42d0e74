/** Text of strangers, made safe to show: in certificates, listings, fingerprints and the registry of networks. */

/** Nothing is seen of these, or they reorder text: controls, format characters, fillers, separators, the blank braille pattern. */
const INVISIBLE = /[\p{Cc}\p{Cf}\p{Default_Ignorable_Code_Point}\p{Zl}\p{Zp}\u2800]/gu
const MARKS = /(\p{M}{4})\p{M}+/gu // more marks on one letter cover the lines around it

/** One line, no invisible characters, at most four marks in a row, at most `charsMax` UTF-16 units, well formed. */
export function shown(text: string, charsMax: number): string {
  return text
    .slice(0, 4 * charsMax)
    .replace(INVISIBLE, '')
    .replace(MARKS, '$1')
    .toWellFormed()
    .trim()
    .slice(0, charsMax)
    .toWellFormed()
}
