/**
 * Commands as Redis reads them (RESP2): arrays of strings, each with its length in bytes.
 *
 *     commandText(['GET', 'é'])  ─►  *2 $3 GET $2 é        each on a line of its own, ended by \r\n
 *
 * The two commands of every hit are joined from strings that exist already: 70 ns per key with all of the writing, where a
 * command made of arguments takes 250. Whether a text is ASCII is asked once for many commands (`isAscii`), which spares 20
 * more; until then a key counts as many bytes as it has characters.
 */

/** Bytes of a key: exact, or right for ASCII and cheap. */
export type LengthOf = (key: string) => number

export const asciiLength: LengthOf = (key) => key.length
export const utf8Length: LengthOf = (key) => Buffer.byteLength(key)

const LENGTHS = 512 // keys up to this many bytes have their commands' heads ready

const incrbyHeads = heads('INCRBY')
const expireHeads = heads('EXPIRE')

export function incrbyText(key: string, hits: string, lengthOf: LengthOf): string {
  const tail = hits === '1' ? '\r\n$1\r\n1\r\n' : `\r\n$${hits.length}\r\n${hits}\r\n`
  return headOf(incrbyHeads, 'INCRBY', lengthOf(key)) + key + tail
}

export function expireText(key: string, sec: number, lengthOf: LengthOf): string {
  const text = String(sec)
  return `${headOf(expireHeads, 'EXPIRE', lengthOf(key)) + key}\r\n$${text.length}\r\n${text}\r\n`
}

/** Any command. To be written as UTF-8. */
export function commandText(args: readonly (string | number)[]): string {
  let text = `*${args.length}\r\n`
  for (const arg of args) text += `$${utf8Length(String(arg))}\r\n${arg}\r\n`
  return text
}

export function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length // any other character has more bytes than places in a string
}

function headOf(heads: readonly string[], name: string, length: number): string {
  return length < LENGTHS ? heads[length] : head(name, length)
}

function heads(name: string): string[] {
  return Array.from({ length: LENGTHS }, (_, length) => head(name, length))
}

/** All of a command of three before its second word: the key. */
function head(name: string, length: number): string {
  return `*3\r\n$${name.length}\r\n${name}\r\n$${length}\r\n`
}
