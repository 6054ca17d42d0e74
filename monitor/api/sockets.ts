/**
 * The part of uWebSockets.js that the monitor uses, so that nothing here imports it: the caller passes an `OpenPort`.
 * Two rules of the library apply everywhere:
 *
 *     a request is invalid after its callback returns    ─► request.ts copies it first
 *     a response is invalid after `onAborted`            ─► response.ts checks before it writes, and writes within `cork`
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
  closeSoon?(): void // after a response; absent for trusted proxies, which read what they are sent
  tryEnd(rest: string | Uint8Array, totalBytes: number): [hasRoom: boolean, isDone: boolean]
  onWritable(handler: (offset: number) => boolean): unknown
  onAborted(handler: () => void): unknown
  onData(handler: (chunk: ArrayBuffer, isLast: boolean) => void): unknown
  cork(write: () => void): unknown
  getRemoteAddress(): ArrayBuffer // 4 or 16 bytes; none on a Unix socket
  getProxiedRemoteAddress(): ArrayBuffer // of a PROXY v2 header; none without one
}

/** What client-connections.ts needs in addition: notice of connections, and closing one. */
export interface ServedApp {
  filter(change: (connection: Connection, count: unknown) => void): unknown // 1 = opened, -1 = closed
  any(pattern: string, handler: (res: Connection, req: ServedRequest) => void): unknown
}

export interface Connection extends HttpResponse {
  close(): unknown
}

export interface ServedRequest extends HttpRequest {
  setYield(isForNext: boolean): unknown // true: the next matching route handles the request
}

/** Opens a port; transports/uws.ts implements it. Returns null when the port is in use, also if it could be shared. */
export type OpenPort = (host: string, port: number, addRoutes: (app: ServedApp) => void) => OpenedPort | null

export interface OpenedPort {
  readonly port: number
  stopListening(): void
  close(): void
}
