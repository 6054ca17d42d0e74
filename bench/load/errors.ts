/** Formats the reasons of failed calls, and groups them by cause, without the names and numbers of a call. */
const CHARS_MAX = 200 // of a reason

/** Codes of a protocol are part of the cause. */
const CODE = /\b(?:status|RST_STREAM|GOAWAY|with) \d{1,3}\b/
const VARIABLE = new RegExp(`(${CODE.source})|"[^"]*"|'[^']*'|\\d+`, 'g')

/** Decodes a grpc-message, which is percent-encoded UTF-8. Returns it unchanged if it is not. */
export function decodeGrpcMessage(grpcMessage: string): string {
  try {
    return decodeURIComponent(grpcMessage)
  } catch {
    return grpcMessage
  }
}

/** For a terminal: one line of bounded length without control characters. */
export function readable(reason: string): string {
  const line = reason.slice(0, CHARS_MAX + 1).replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, ' ')
  return line.length > CHARS_MAX ? `${line.slice(0, CHARS_MAX)}...` : line
}

/** Equal for reasons that differ in numbers and quoted parts alone. */
export function normalizeReason(reason: string): string {
  return reason.replace(VARIABLE, (_, code?: string) => code ?? '#')
}
