/**
 * A real memcached on a private port of 127.0.0.1.
 *
 *     test process ──stdin──► sh ──► memcached          when the test process ends, for any reason, stdin closes and memcached is killed
 *
 *     const memcached = await startMemcached()
 *     await memcached.run('set a 0 0 1\r\n7')        'STORED'
 *     await memcached.read('a')                      { value: '7', ttlSec: -1 }
 *     await memcached.stop()
 */
import { spawn } from 'node:child_process'
import { rm } from 'node:fs/promises'
import { connect } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import { freePort } from './ports.ts'

export interface MemcachedServer {
  port: number
  address: string // 127.0.0.1:port, or the path of its socket
  /** Sends one command without its line end. Resolves to the reply without the last line end. */
  run(command: string): Promise<string>
  /** An item, or null. A `ttlSec` of -1 means that it never expires. */
  read(key: string): Promise<{ value: string; ttlSec: number } | null>
  /** May be called again. */
  stop(): Promise<void>
}

/** `port`: that of an earlier server, for a restart. `path`: a unix socket instead. `args`: further arguments of memcached. */
export interface MemcachedOptions {
  port?: number
  path?: string
  args?: string[]
  hasOwnSession?: boolean // as in test/helpers/redis.ts
}

const START_MS_MAX = 60_000
const REPLY_MS_MAX = 60_000

// The second line waits for the end of stdin beside the server; the third ends when the server does.
const script = `exec 3<&0; memcached "$@" </dev/null & server=$!
(read -r _ <&3; kill -9 "$server") 2>/dev/null & watch=$!
wait "$server"; kill "$watch" 2>/dev/null`

export async function startMemcached(options: MemcachedOptions = {}): Promise<MemcachedServer> {
  const port = options.port ?? (await freePort())
  const target = options.path ? { path: options.path } : { port, host: '127.0.0.1' }
  const listen = options.path ? ['-s', options.path] : ['-p', String(port), '-l', '127.0.0.1']
  const user = process.getuid?.() === 0 ? ['-u', 'root'] : [] // as root it starts only with this
  const args = ['-c', script, 'sh', ...listen, ...user, '-m', '32', '-t', '1', ...(options.args ?? [])]
  const server = spawn('sh', args, { stdio: 'pipe', detached: options.hasOwnSession })
  let output = ''
  for (const stream of [server.stdout, server.stderr]) {
    stream.setEncoding('utf8').on('data', (text: string) => {
      if (output.length < 10_000) output += text
    })
  }
  let hasExited = false
  const exited = new Promise<void>((resolve) => server.once('exit', () => resolve())).then(() => {
    hasExited = true
  })
  const stop = async () => {
    server.stdin.end()
    await exited
    if (options.path) await rm(options.path, { force: true }) // a killed memcached leaves it
  }
  const until = Date.now() + START_MS_MAX
  while (!(await accepts(target))) {
    if (hasExited || Date.now() > until) {
      await stop()
      throw new Error(`memcached did not start on ${JSON.stringify(target)}:\n${output}`)
    }
    await sleep(10)
  }
  const run = (command: string) => runCommand(target, command)
  const read = async (key: string) => {
    const found = /^VA \d+ t(-?\d+)\r\n([\s\S]*)$/.exec(await run(`mg ${key} t v`))
    return found && { value: found[2], ttlSec: Number(found[1]) }
  }
  return { port, address: options.path ?? `127.0.0.1:${port}`, run, read, stop }
}

type Target = { path: string } | { port: number; host: string }

function accepts(target: Target): Promise<boolean> {
  return new Promise((resolve) => {
    const socket = connect(target, () => {
      socket.destroy()
      resolve(true)
    })
    socket.once('error', () => resolve(false))
  })
}

/** The reply to `mn` is `MN`, so everything before it is the reply to `command`. */
async function runCommand(target: Target, command: string): Promise<string> {
  const socket = connect(target)
  socket.setEncoding('utf8').setTimeout(REPLY_MS_MAX, () => socket.destroy(new Error('memcached is silent')))
  socket.write(`${command}\r\nmn\r\n`)
  let reply = ''
  for await (const text of socket) {
    reply += text
    if (reply.endsWith('MN\r\n')) break
  }
  socket.destroy()
  return reply.slice(0, -'MN\r\n'.length).replace(/\r\n$/, '')
}
