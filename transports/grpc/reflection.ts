/**
 * grpc.reflection.v1 and v1alpha: the services of this port and their messages, for grpcurl and similar tools.
 *
 *     list_services ──────────────────────────► names of services
 *     file_by_filename, file_containing_symbol ► .proto files as descriptors (descriptors.ts)
 *     extensions ─────────────────────────────► UNIMPLEMENTED, inside a response, as for all request errors
 */
import type { Log } from '../../engine/runtime/messages.ts'
import {
  decodeReflectionRequest,
  encodeReflectionResponse,
  type ReflectionRequest,
  type ReflectionResponse,
} from '../../proto/grpc/reflection.ts'
import { Descriptors } from './descriptors.ts'
import type { StreamCall, StreamHandler, StreamMethod } from './frontend.ts'
import { Status } from './status.ts'

/** A request is a name, and its response repeats it; longer ones are refused. */
const REQUEST_BYTES_MAX = 4 * 1024

const FILES = [
  'envoy/service/ratelimit/v3/rls.proto',
  'grpc/health/v1/health.proto',
  'grpc/reflection/v1/reflection.proto',
  'grpc/reflection/v1alpha/reflection.proto',
]

const PATHS = [
  '/grpc.reflection.v1.ServerReflection/ServerReflectionInfo',
  '/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo',
]

/** `paths` are those of all other methods of the port. */
export function createReflectionMethods(paths: readonly string[], log: Log): StreamMethod[] {
  const services = new Set([...paths, ...PATHS].map((path) => path.split('/')[1]))
  const reflection = new Reflection([...services].sort(), log)
  return PATHS.map((path) => ({ path, open: (call) => new ReflectionStream(call, reflection) }))
}

class Reflection {
  private readonly services: readonly string[]
  private readonly log: Log
  private descriptors: Descriptors | null = null

  constructor(services: readonly string[], log: Log) {
    this.services = services
    this.log = log
  }

  resolve({ kind, text }: ReflectionRequest): ReflectionResponse {
    if (kind === 'listServices') return { services: this.services }
    if (kind === 'other')
      return { code: Status.Unimplemented, message: 'not served; there are no extensions' }
    try {
      this.descriptors ??= new Descriptors(FILES)
    } catch (error) {
      this.log('error', `reflection cannot read the .proto files: ${(error as Error).stack}`)
      return { code: Status.Internal, message: 'internal error' }
    }
    const isName = kind === 'fileByFilename'
    const files = isName ? this.descriptors.byName(text) : this.descriptors.bySymbol(text)
    if (files !== null) return { files }
    return { code: Status.NotFound, message: `${isName ? 'file' : 'symbol'} not found: ${text}` }
  }
}

class ReflectionStream implements StreamHandler {
  private readonly call: StreamCall
  private readonly reflection: Reflection

  constructor(call: StreamCall, reflection: Reflection) {
    this.call = call
    this.reflection = reflection
  }

  message(bytes: Uint8Array): void {
    if (bytes.length > REQUEST_BYTES_MAX) {
      this.call.refuse(Status.ResourceExhausted, `the request is longer than ${REQUEST_BYTES_MAX} bytes`)
      return
    }
    let request: ReflectionRequest
    try {
      request = decodeReflectionRequest(bytes)
    } catch (error) {
      const reason = (error as Error).message
      this.call.refuse(Status.Internal, `the request is not a valid ServerReflectionRequest: ${reason}`)
      return
    }
    // At most one response is queued: the next request is withheld while the client does not read.
    this.call.send(encodeReflectionResponse(request.host, bytes, this.reflection.resolve(request)))
  }

  halfClosed(): void {
    this.call.end()
  }

  writable(): void {}

  closed(): void {}
}
