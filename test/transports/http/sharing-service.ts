/**
 * A process as the tests need it: two worker threads that serve gRPC and HTTP on the same two ports, nothing else. Driven over IPC:
 * `{ slow: true }` reports a request in flight, `crash` ends one worker with an uncaught error, `drain` lets both finish. Never calls
 * process.exit: that the process ends by itself after a drain is what is tested.
 */
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'
import { isMainThread, parentPort, threadId, Worker, workerData } from 'node:worker_threads'
import type { RateLimiter } from '../../../engine/decision/rate-limiter.ts'
import { decodeRequest } from '../../../proto/codec.ts'
import { grpcJsFrontend } from '../../../transports/grpc/grpc-js.ts'
import { listen } from '../../../transports/grpc/listener.ts'
import { createUnaryMethods } from '../../../transports/grpc/services.ts'
import { HttpServer } from '../../../transports/http/server.ts'

const HOST = '127.0.0.1'

interface Ports {
  grpc: number
  http: number
}

const held: (() => void)[] = [] // answers that wait for the drain

/** Answers with the name of its thread. Requests for `slow` are reported, and answered once the drain has begun. */
const limiter: RateLimiter = {
  decide({ domain }, caller) {
    const answer = () =>
      caller.onDecision({
        overallCode: 1,
        statuses: [],
        responseHeadersToAdd: [{ key: 'thread', value: String(threadId) }],
        dynamicMetadata: null,
      })
    if (domain !== 'slow') {
      answer()
      return
    }
    held.push(answer)
    parentPort!.postMessage('slow')
  },
  decideBytes(bytes, caller) {
    this.decide(decodeRequest(bytes), caller)
  },
}

async function serve(ports: Ports): Promise<void> {
  const log = () => {}
  const frontend = grpcJsFrontend({ methods: createUnaryMethods(limiter, log) })
  const listener = await listen({
    host: HOST,
    port: ports.grpc,
    onSocket: (socket) => frontend.accept(socket),
  })
  const options = { bodyBytesMax: 1_000, limiter, health: { isHealthy: true, report: '' }, log }
  const http = new HttpServer({ host: HOST, port: ports.http, ...options })
  parentPort!.on('message', async (message) => {
    if (message === 'crash') throw new Error('crashed on demand')
    listener.stop()
    const drained = Promise.all([frontend.drain(10_000), http.drain(10_000)])
    for (const answer of held.splice(0)) answer()
    await drained
    parentPort!.close()
  })
  parentPort!.postMessage('listening')
}

/** Resolves once the worker listens. */
function startWorker(ports: Ports): Promise<Worker> {
  const worker = new Worker(new URL(import.meta.url), { workerData: ports })
  worker.on('error', (error) => process.send!({ crashed: error.message }))
  return new Promise((resolve) => {
    worker.on('message', (message) => {
      if (message === 'slow') process.send!({ slow: true })
      else resolve(worker)
    })
  })
}

async function freePort(): Promise<number> {
  const server = createServer().listen(0, HOST)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  server.close()
  await once(server, 'close')
  return port
}

if (isMainThread) {
  const ports = { grpc: await freePort(), http: await freePort() }
  const first = await startWorker(ports)
  const second = await startWorker(ports)
  process.on('message', (message) => {
    if (message === 'crash') first.postMessage('crash')
    else {
      process.disconnect()
      for (const worker of [first, second]) worker.postMessage('drain')
    }
  })
  process.send!({ ports })
} else await serve(workerData as Ports)
