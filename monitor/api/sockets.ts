/**
 * What the API needs of uWebSockets.js, so that nothing here imports it: the composition opens the port and hands each
 * request over. Two rules of the library stand behind every use:
 *
 *     a request is gone after its callback returns    ─► request.ts reads all of it first
 *     a response is gone once `onAborted` has fired   ─► response.ts asks before it writes, and writes within `cork`
 */

export interface HttpRequest {
  getHeader(name: string): string // lower case; empty = absent
  forEach(visit: (name: string, value: string) => void): void // names in lower case
  getUrl(): string // the path, raw
  getCaseSensitiveMethod(): string
  getQuery(): string | undefined // raw, without `?`
}

export interface HttpResponse {
  writeStatus(line: string): unknown
  writeHeader(name: string, value: string): unknown
  end(body: string | Uint8Array, mustClose: boolean): unknown
  endWithoutBody(): unknown
  close(): unknown
  closeSoon?(): void // after an answer; absent where nothing needs it, since a trusted proxy reads what it is sent
  tryEnd(rest: string | Uint8Array, totalBytes: number): [hasRoom: boolean, isDone: boolean]
  onWritable(handler: (offset: number) => boolean): unknown
  onAborted(handler: () => void): unknown
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): unknown
  cork(write: () => void): unknown
  getRemoteAddress(): ArrayBuffer // 4 or 16 bytes; none on a Unix socket
  getProxiedRemoteAddress(): ArrayBuffer // of a PROXY v2 header; none without one
}

/** What client-connections.ts needs besides: to hear of connections, and to end one. */
export interface ServedApp {
  filter(change: (connection: Connection, count: unknown) => void): unknown // 1 = opened, -1 = closed
  any(pattern: string, handler: (res: Connection, req: ServedRequest) => void): unknown
}

export interface Connection extends HttpResponse {
  close(): unknown
}

export interface ServedRequest extends HttpRequest {
  setYield(isForNext: boolean): unknown // true: the next route that fits is asked
}
