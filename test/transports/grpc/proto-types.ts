/**
 * The .proto files read by protobufjs: an oracle that shares no code with the codecs.
 *
 *     const Request = protoRoot('grpc/health/v1/health.proto').lookupType('grpc.health.v1.HealthCheckRequest')
 *     Request.encode({ service: 'ratelimit' }).finish()
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import protobuf from 'protobufjs'

const PROTO = join(import.meta.dirname, '../../../proto')

/** The definitions of these files and their imports. (`load` would use its own google/protobuf files.) */
export function protoRoot(...files: string[]): protobuf.Root {
  const root = new protobuf.Root()
  const wanted = new Set(files)
  for (const file of wanted) {
    const { imports } = protobuf.parse(readFileSync(join(PROTO, file), 'utf8'), root, { keepCase: true })
    for (const each of imports ?? []) wanted.add(each)
  }
  root.resolveAll()
  return root
}
