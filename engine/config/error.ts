/**
 * An error in a rule file: `<file>: <text> (line N)`.
 *
 *     config.basic.yaml: duplicate descriptor composite key 'shop.user_7' (line 12)
 *     |-- file --------|  |-- text of envoyproxy/ratelimit ------------| |-added-|
 *
 * The text is that of envoyproxy/ratelimit (spec 1.3, 1.4), because people search for it and alert on it. It therefore has
 * no `fix` and no code; the line, which envoyproxy/ratelimit does not report, follows the text.
 */
export class ConfigError extends Error {
  override name = 'ConfigError'

  /** `line`: 1 or more; 0 = unknown (xDS, the whole file). */
  constructor(file: string, text: string, line = 0) {
    super(`${file}: ${text}${line > 0 ? ` (line ${line})` : ''}`)
  }
}
