/**
 * What is wrong with a configuration: `<file>: <text> (line N)`.
 *
 *     config.basic.yaml: duplicate descriptor composite key 'shop.user_7' (line 12)
 *     |-- file --------|  |-- text, word for word the reference's -----| |- ours -|
 *
 * The text is the reference's (spec 1.3, 1.4), because people search and alert on it. So there is no `fix` and no code
 * as other errors of ours have; the line, which the reference does not tell, comes after the text.
 */
export class ConfigError extends Error {
  override name = 'ConfigError'

  /** `line` 1 or more; 0 when there is none to tell (xDS, the whole file). */
  constructor(file: string, text: string, line = 0) {
    super(`${file}: ${text}${line > 0 ? ` (line ${line})` : ''}`)
  }
}
