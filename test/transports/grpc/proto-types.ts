/**
 * Our .proto files read by protobufjs: a witness that shares no code with our codecs.
 *
 *     const Request = protoRoot('grpc/health/v1/health.proto').lookupType('grpc.health.v1.HealthCheckRequest')
 *     Request.encode({ service: 'ratelimit' }).finish()
 */
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import protobuf from 'protobufjs'

const PROTO = join(import.meta.dirname, '../../../proto')

/** What these files and all they import define. (`load` would take its own google/protobuf files in place of ours.) */
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
