/**
 * A TCP proxy with the faults of a network.
 *
 *     client ──requests──► proxy ──► server          requests always pass, without delay
 *            ◄──replies───   │
 *                            stall()          replies wait here until resume()
 *                            delay(ms)        each reply waits here for this time
 *                            loseNextReply()  the next reply is dropped and its connection closed: the server has
 *                                             executed the request, the client cannot know
 *                            cut()            ends all connections
 *                            refuse()         ends all connections and accepts none until accept()
 */
import { connect, createServer, type Socket } from 'node:net'
import { freePort } from './ports.ts'

export interface TcpProxy {
  port: number
  connectionsCount: number // ever accepted
  stall(): void
  resume(): void
  delay(ms: number): void
  loseNextReply(): void
  cut(): void
  refuse(): Promise<void>
  accept(): Promise<void>
  stop(): Promise<void>
}

export async function startTcpProxy(serverPort: number): Promise<TcpProxy> {
  const port = await freePort()
  const pairs = new Map<Socket, Socket>() // client to server
  let isStalled = false
  let losesNext = false
  let delayMs = 0

  const listener = createServer((client) => {
    proxy.connectionsCount++
    const server = connect(serverPort, '127.0.0.1')
    const waiting: { bytes: Buffer; dueMs: number }[] = [] // replies, oldest first
    let timer: NodeJS.Timeout | undefined
    pairs.set(client, server)
    const end = () => {
      clearTimeout(timer)
      waiting.length = 0
      pairs.delete(client)
      client.destroy()
      server.destroy()
    }
    for (const socket of [client, server]) socket.setNoDelay(true).on('error', end).on('close', end)
    client.on('data', (bytes) => server.write(bytes))
    server.on('data', (bytes) => {
      if (losesNext) {
        losesNext = false
        end()
      } else {
        waiting.push({ bytes, dueMs: performance.now() + delayMs })
        pass()
      }
    })
    /** In order, also when the delay has become shorter: replies that overtake others would answer other requests. */
    const pass = () => {
      while (waiting.length > 0 && waiting[0].dueMs <= performance.now()) client.write(waiting.shift()!.bytes)
      if (waiting.length === 0) return
      timer ??= setTimeout(() => {
        timer = undefined
        pass()
      }, waiting[0].dueMs - performance.now())
    }
    if (isStalled) server.pause()
  })

  const proxy: TcpProxy = {
    port,
    connectionsCount: 0,
    stall() {
      isStalled = true
      for (const server of pairs.values()) server.pause()
    },
    resume() {
      isStalled = false
      for (const server of pairs.values()) server.resume()
    },
    delay(ms) {
      delayMs = ms
    },
    loseNextReply() {
      losesNext = true
    },
    cut() {
      for (const client of pairs.keys()) client.destroy()
    },
    refuse() {
      proxy.cut()
      return new Promise((resolve) => listener.close(() => resolve()))
    },
    accept() {
      return new Promise((resolve) => listener.listen(port, '127.0.0.1', () => resolve()))
    },
    async stop() {
      if (listener.listening) await proxy.refuse()
      else proxy.cut()
    },
  }
  await proxy.accept()
  return proxy
}
