/**
 * Server reflection over every frontend, as grpcurl uses it: from a name to a call, with nothing but the responses.
 */
import { status } from '@grpc/grpc-js'
import protobuf from 'protobufjs'
import descriptor from 'protobufjs/ext/descriptor.js'
import { beforeEach, describe, expect, test } from 'vitest'
import { HealthService } from '../../../transports/grpc/health.ts'
import { createServices } from '../../../transports/grpc/services.ts'
import { FakeRateLimiter } from '../fake-rate-limiter.ts'
import { FRONTENDS, openPort, Stream, unary } from './open-port.ts'
import { protoRoot } from './proto-types.ts'

const VERSIONS = ['v1', 'v1alpha'] as const
const SERVICES = [
  'envoy.service.ratelimit.v3.RateLimitService',
  'grpc.health.v1.Health',
  'grpc.reflection.v1.ServerReflection',
  'grpc.reflection.v1alpha.ServerReflection',
]
const RLS = 'envoy/service/ratelimit/v3/rls.proto'
const RLS_FILES = [
  RLS,
  'envoy/config/core/v3/base.proto',
  'envoy/extensions/common/ratelimit/v3/ratelimit.proto',
  'google/protobuf/duration.proto',
  'google/protobuf/struct.proto',
  'envoy/type/v3/ratelimit_unit.proto',
  'google/protobuf/wrappers.proto',
]
const ALL_FILES = [
  ...RLS_FILES,
  'grpc/health/v1/health.proto',
  ...VERSIONS.map((version) => `grpc/reflection/${version}/reflection.proto`),
]

interface Answer {
  valid_host?: string
  original_request?: Record<string, unknown>
  file_descriptor_response?: { file_descriptor_proto: Uint8Array[] }
  list_services_response?: { service: { name: string }[] }
  error_response?: { error_code: number; error_message: string }
}

/** One version of the protocol, its messages made from the .proto file. */
function speaker(version: (typeof VERSIONS)[number]) {
  const root = protoRoot(`grpc/reflection/${version}/reflection.proto`)
  const Request = root.lookupType(`grpc.reflection.${version}.ServerReflectionRequest`)
  const Response = root.lookupType(`grpc.reflection.${version}.ServerReflectionResponse`)
  return {
    path: `/grpc.reflection.${version}.ServerReflection/ServerReflectionInfo`,
    encode: (request: object) => Request.encode(Request.create(request)).finish(),
    decode: (bytes: Uint8Array | null) => Response.toObject(Response.decode(bytes!)) as Answer,
  }
}

const toFile = (bytes: Uint8Array) => descriptor.FileDescriptorProto.decode(bytes)
const filesIn = (answer: Answer) => answer.file_descriptor_response!.file_descriptor_proto.map(toFile)

for (const [name, make] of Object.entries(FRONTENDS)) {
  for (const version of VERSIONS) {
    describe(`${name} ${version}`, () => {
      const { path, encode, decode } = speaker(version)
      let limiter: FakeRateLimiter
      let logged: string[]
      const start = () =>
        openPort(
          make,
          createServices(limiter, new HealthService(true), (_level, line) => logged.push(line)),
        )
      beforeEach(() => {
        limiter = new FakeRateLimiter()
        logged = []
      })
      /** One request on a stream of its own. */
      const ask = async (request: object): Promise<Answer> => {
        const { client } = await start()
        const stream = new Stream(client, path).send(encode(request)).end()
        const answer = decode(await stream.next())
        expect(await stream.ending()).toEqual([status.OK, 'OK'])
        expect(logged).toEqual([])
        return answer
      }

      test('list_services: everything the port serves', async () => {
        const request = { host: 'h', list_services: '*' }
        expect(await ask(request)).toEqual({
          valid_host: 'h',
          original_request: request,
          list_services_response: { service: SERVICES.map((each) => ({ name: each })) },
        })
      })

      test('file_by_filename: the file, then its imports', async () => {
        const files = filesIn(await ask({ file_by_filename: RLS }))
        expect(files.map((file) => file.name)).toEqual(RLS_FILES)
        expect(files[0]).toMatchObject({
          package: 'envoy.service.ratelimit.v3',
          dependency: RLS_FILES.slice(1, 5),
          syntax: 'proto3',
        })
      })

      // biome-ignore format: the columns are the specification
      const symbols = [
        ['envoy.service.ratelimit.v3.RateLimitService',                    RLS],
        ['envoy.service.ratelimit.v3.RateLimitService.ShouldRateLimit',    RLS],
        ['envoy.service.ratelimit.v3.RateLimitRequest',                    RLS],
        ['envoy.service.ratelimit.v3.RateLimitRequest.domain',             RLS],
        ['envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.Unit',    RLS],
        ['envoy.service.ratelimit.v3.RateLimitResponse.RateLimit.WEEK',    RLS],
        ['grpc.health.v1.Health.Watch',                                    'grpc/health/v1/health.proto'],
        [`grpc.reflection.${version}.ServerReflectionRequest.message_request`, `grpc/reflection/${version}/reflection.proto`],
        ['google.protobuf.Struct',                                         'google/protobuf/struct.proto'],
        ['google.protobuf.Duration',                                       'google/protobuf/duration.proto'],
      ] as const
      for (const [symbol, file] of symbols) {
        test(`file_containing_symbol: ${symbol}`, async () => {
          expect(filesIn(await ask({ file_containing_symbol: symbol }))[0].name).toBe(file)
        })
      }

      // biome-ignore format: the columns are the specification
      const unanswered: [request: object, code: number, message: string][] = [
        [{ file_by_filename: 'nope.proto' },      status.NOT_FOUND,     'file not found: nope.proto'],
        [{ file_by_filename: '../package.json' }, status.NOT_FOUND,     'file not found: ../package.json'],
        [{ file_by_filename: '' },                status.NOT_FOUND,     'file not found: '],
        [{ file_containing_symbol: 'a.B' },       status.NOT_FOUND,     'symbol not found: a.B'],
        [{ file_containing_symbol: 'envoy' },     status.NOT_FOUND,     'symbol not found: envoy'],
        [{ all_extension_numbers_of_type: 'a.B' },              status.UNIMPLEMENTED, 'not served; there are no extensions'],
        [{ file_containing_extension: { extension_number: 1 } }, status.UNIMPLEMENTED, 'not served; there are no extensions'],
        [{},                                      status.UNIMPLEMENTED, 'not served; there are no extensions'],
      ]
      for (const [request, error_code, error_message] of unanswered) {
        test(`a request error does not end the stream: ${JSON.stringify(request)}`, async () => {
          const { client } = await start()
          const stream = new Stream(client, path).send(encode(request)).send(encode({ list_services: '' }))
          expect(decode(await stream.next()).error_response).toEqual({ error_code, error_message })
          expect(decode(await stream.next()).list_services_response?.service).toHaveLength(4)
          expect(await stream.end().ending()).toEqual([status.OK, 'OK'])
        })
      }

      test('a request longer than 4 KiB ends the stream: RESOURCE_EXHAUSTED', async () => {
        const { client } = await start()
        const stream = new Stream(client, path).send(encode({ file_by_filename: 'x'.repeat(4 * 1024) }))
        const message = 'the request is longer than 4096 bytes'
        expect(await stream.ending()).toEqual([status.RESOURCE_EXHAUSTED, message])
      })

      test('bytes that are not a request end the stream: INTERNAL', async () => {
        const { client } = await start()
        const [code, message] = await new Stream(client, path).send(Uint8Array.of(0x1a, 5, 100)).ending()
        expect(code).toBe(status.INTERNAL)
        expect(message).toMatch(/^the request is not a valid ServerReflectionRequest: index out of range/)
      })
    })
  }

  test(`${name}: a call built from reflection alone`, async () => {
    const { client } = await openPort(
      make,
      createServices(new FakeRateLimiter(), new HealthService(true), () => {}),
    )
    const { path, encode, decode } = speaker('v1')
    const stream = new Stream(client, path)
    const [service] = decode(await stream.send(encode({ list_services: '' })).next()).list_services_response!
      .service
    const answer = decode(await stream.send(encode({ file_containing_symbol: service.name })).next())
    stream.end()
    const set = { file: filesIn(answer) }
    const root = protobuf.Root.fromDescriptor(descriptor.FileDescriptorSet.create(set) as never)
    const [method] = root.lookupService(service.name).methodsArray
    const { resolvedRequestType: Request, resolvedResponseType: Response } = method
    const request = { domain: 'over', descriptors: [{ entries: [{ key: 'user', value: '7' }] }] }
    const bytes = await unary(
      client,
      `/${service.name}/${method.name}`,
      Request!.encode(Request!.fromObject(request)).finish(),
    )
    expect(Response!.toObject(Response!.decode(bytes), { enums: String })).toMatchObject({
      overallCode: 'OVER_LIMIT',
      statuses: [{ code: 'OK', currentLimit: { requestsPerUnit: 5, unit: 'MINUTE' } }],
    })
  })
}

test('maps and types are named as by protoc, which Go requires', async () => {
  const { client } = await openPort(
    FRONTENDS['grpc-js'],
    createServices(new FakeRateLimiter(), new HealthService(true), () => {}),
  )
  const { path, encode, decode } = speaker('v1')
  const stream = new Stream(client, path).send(encode({ file_containing_symbol: 'google.protobuf.Struct' }))
  const [file] = filesIn(decode(await stream.next()))
  const [Struct] = descriptor.FileDescriptorProto.toObject(file, { enums: String }).messageType
  expect(Struct).toEqual({
    name: 'Struct',
    field: [
      {
        name: 'fields',
        number: 1,
        label: 'LABEL_REPEATED',
        type: 'TYPE_MESSAGE',
        typeName: '.google.protobuf.Struct.FieldsEntry',
        jsonName: 'fields',
      },
    ],
    nestedType: [
      {
        name: 'FieldsEntry',
        field: [
          { name: 'key', number: 1, label: 'LABEL_OPTIONAL', type: 'TYPE_STRING', jsonName: 'key' },
          {
            name: 'value',
            number: 2,
            label: 'LABEL_OPTIONAL',
            type: 'TYPE_MESSAGE',
            typeName: '.google.protobuf.Value',
            jsonName: 'value',
          },
        ],
        options: { mapEntry: true },
      },
    ],
  })
  stream.end()
})

test('descriptors equal the .proto files', async () => {
  const { client } = await openPort(
    FRONTENDS['grpc-js'],
    createServices(new FakeRateLimiter(), new HealthService(true), () => {}),
  )
  const { path, encode, decode } = speaker('v1')
  const stream = new Stream(client, path)
  const file = []
  for (const name of ALL_FILES) {
    file.push(filesIn(decode(await stream.send(encode({ file_by_filename: name })).next()))[0])
  }
  stream.end()
  const set = descriptor.FileDescriptorSet.create({ file })
  const reflected = protobuf.Root.fromDescriptor(set as never, { keepCase: true })
  expect(shape(reflected)).toEqual(shape(protoRoot(...ALL_FILES)))
})

/** Every message, enum and service below, with absolute type names; options added by the parser omitted. */
function shape(object: protobuf.ReflectionObject): unknown {
  if (object instanceof protobuf.Field) {
    const { id, repeated, partOf, resolvedType, type } = object
    const keyType = object instanceof protobuf.MapField ? object.keyType : undefined
    return { id, repeated, keyType, oneof: partOf?.name, type: resolvedType?.fullName ?? type }
  }
  if (object instanceof protobuf.Enum) return object.values
  if (object instanceof protobuf.Method) {
    const { requestStream = false, responseStream = false } = object
    const types = [object.resolvedRequestType?.fullName, object.resolvedResponseType?.fullName]
    return { requestStream: !!requestStream, responseStream: !!responseStream, types }
  }
  const members: protobuf.ReflectionObject[] = []
  if (object instanceof protobuf.Type) members.push(...object.fieldsArray)
  if (object instanceof protobuf.Service) members.push(...object.methodsArray)
  if (object instanceof protobuf.Namespace) members.push(...object.nestedArray)
  return Object.fromEntries(members.map((member) => [member.name, shape(member)]))
}
