/**
 * What does tracing cost a decision? One descriptor by its bytes, with the memory store, through every layer between
 * a gRPC frontend and the engine.
 *   floor  the engine alone
 *   off    the method as served without tracing: the difference to the floor is the cost of the method
 *   rate 0 tracing is on and samples nothing: the parent is read, a span without records is created
 *   rate 1 every call creates two spans, which are dropped before the exporter
 * Worth changing when `off` and the floor differ by more than a callback object and the bytes of a response.
 */
import { compile } from '../engine/match/compile.ts'
import { parseSettings } from '../engine/settings/parse.ts'
import { encodeRequest } from '../proto/codec.ts'
import type { UnaryCall, UnaryMethod } from '../transports/grpc/frontend.ts'
import { createUnaryMethods } from '../transports/grpc/services.ts'
import { openTracing } from '../transports/tracing/open-tracing.ts'
import { benchEngine, ruleNode } from './engine.ts'
import { measure } from './measure.ts'
import { seeded, size } from './size.ts'

const USERS = 1_000
const callsCount = size({ small: 1_000, full: 50_000 })
const random = seeded(7)

const bytes = Array.from({ length: callsCount }, () => {
  const entries = [{ key: 'user', value: String(Math.floor(random() * USERS)) }]
  return encodeRequest({
    domain: 'shop',
    descriptors: [{ entries, limit: null, hitsAddend: null }],
    hitsAddend: 0,
  })
})
const engine = benchEngine(random)
engine.setRules(compile([{ name: 'shop', nodes: [ruleNode('user')] }]))

let sum = 0
const call: UnaryCall = {
  deadlineMs: Number.POSITIVE_INFINITY,
  isCancelled: false,
  origin: () => ({ peer: '127.0.0.1:40000', header: () => '' }),
  reply: (response) => {
    sum += response.length
  },
  refuse: (_, message) => {
    throw new Error(message)
  },
}
const callback = {
  isCancelled: false,
  onDecision: ({ statuses }: { statuses: unknown[] }) => {
    sum += statuses.length
  },
  onError: (error: Error) => {
    throw error
  },
}
const log = () => {}
const [off] = createUnaryMethods(engine, log)
const unsampled = await createTraced('0')
const sampled = await createTraced('1')

await measure('tracing', callsCount, {
  'floor the engine alone': () => {
    for (let i = 0; i < callsCount; i++) engine.decideBytes(bytes[i], callback)
    return sum
  },
  off: () => handleAll(off),
  'on, rate 0': () => handleAll(unsampled),
  'on, rate 1': () => handleAll(sampled),
})
process.exit() // else the exporter retries to send its one span

/** The queue has one place and is never sent, so that spans are dropped. */
async function createTraced(rate: string) {
  process.env.OTEL_BSP_MAX_QUEUE_SIZE = '1'
  process.env.OTEL_BSP_SCHEDULE_DELAY = String(2 ** 31 - 1)
  const { settings } = parseSettings({
    TRACING_ENABLED: 'true',
    TRACING_SAMPLING_RATE: rate,
    BACKEND_TYPE: 'memory',
  })
  const tracing = await openTracing(settings, log)
  const [method] = tracing.methods(createUnaryMethods(tracing.grpcLimiter(engine), log))
  return method
}

function handleAll(method: UnaryMethod): number {
  for (let i = 0; i < callsCount; i++) method.handle(bytes[i], call)
  return sum
}
