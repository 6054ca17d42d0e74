/**
 * The one file that loads uWebSockets.js, so that another Node version, and with it another binary, is a
 * change of one line here and one in package.json.
 *
 * An app must be closed before its thread ends, however it ends: a worker that goes with an open app aborts
 * the whole process. `openUws` therefore ties the app to the thread's own exit; `close` may come earlier and
 * more than once.
 */
import { createRequire } from 'node:module'
import { resolveRoot } from '../engine/runtime/module-url.ts'

export type { HttpRequest, HttpResponse, TemplatedApp } from 'uWebSockets.js'

/** From runtime/ of an installed package (scripts/install.mjs) if it is there, else from node_modules as usual. */
const require = createRequire(resolveRoot('runtime/'))
const uws: typeof import('uWebSockets.js') = require('uWebSockets.js')

const EXCLUSIVE_PORT = 1 // LIBUS_LISTEN_EXCLUSIVE_PORT, which the binary does not export

/** Options after host and port are read by the binary, but missing in its types. */
type ListenWithOptions = (
  this: ReturnType<typeof uws.App>,
  host: string,
  port: number,
  options: number,
  done: (socket: Parameters<typeof uws.us_listen_socket_close>[0] | false) => void,
) => unknown

export interface UwsPort {
  readonly port: number
  /** No new connections; those there are, and their requests, stay. */
  stopListening(): void
  /** Cuts every connection and frees the port. */
  close(): void
}

/**
 * Listens on a port that several threads may share (SO_REUSEPORT is the library's default). 0 = any free one,
 * which then is not shared: the library sets the option on given ports only. Null when listening is
 * impossible; it does not say why. `isExclusive`: the port is not shared, and null if anyone has it.
 */
export function openUws(
  host: string,
  port: number,
  addRoutes: (app: ReturnType<typeof uws.App>) => void,
  isExclusive = false,
): UwsPort | null {
  const app = uws.App()
  addRoutes(app)
  let listenSocket: Parameters<typeof uws.us_listen_socket_close>[0] | null = null
  const listen = app.listen as unknown as ListenWithOptions
  listen.call(app, host, port, isExclusive ? EXCLUSIVE_PORT : 0, (socket) => {
    if (socket !== false) listenSocket = socket // called before `listen` returns
  })
  if (listenSocket === null) {
    app.close()
    return null
  }
  const opened = new OpenApp(app, listenSocket)
  process.once('exit', opened.close)
  return opened
}

class OpenApp implements UwsPort {
  readonly port: number
  private readonly app: ReturnType<typeof uws.App>
  private listenSocket: Parameters<typeof uws.us_listen_socket_close>[0] | null
  private isOpen = true

  constructor(
    app: ReturnType<typeof uws.App>,
    listenSocket: Parameters<typeof uws.us_listen_socket_close>[0],
  ) {
    this.app = app
    this.listenSocket = listenSocket
    this.port = uws.us_socket_local_port(listenSocket as never)
  }

  stopListening(): void {
    if (this.listenSocket === null || !this.isOpen) return
    uws.us_listen_socket_close(this.listenSocket)
    this.listenSocket = null // closing it twice is a use after free in the library
  }

  close = (): void => {
    if (!this.isOpen) return
    this.stopListening()
    this.isOpen = false
    process.removeListener('exit', this.close)
    this.app.close()
  }
}
