/**
 * Encodes what protobufjs has parsed as a google.protobuf.FileDescriptorProto.
 *
 * protobufjs' own `ext/descriptor` omits imports, and names types and map entries in a way that Go's tools reject. Covers
 * what the .proto files here use: proto3 with messages, enums, maps, oneofs and services. Not covered: options, extensions,
 * `optional`, reserved numbers.
 */
import type { Enum, Field, MapField, ReflectionObject, Service, Type } from 'protobufjs'
import minimal from 'protobufjs/minimal.js'

type Protobuf = typeof import('protobufjs')
type Writer = minimal.Writer
type Fill = (writer: Writer) => void
type FieldType = Pick<Field, 'type' | 'resolvedType'>

const VARINT = 0
const LENGTH = 2
const LABEL_OPTIONAL = 1
const LABEL_REPEATED = 3
const TYPE_MESSAGE = 11
const TYPE_ENUM = 14
// biome-ignore format: names and numbers of FieldDescriptorProto.Type
const SCALARS: Record<string, number> = {
  double: 1, float: 2, int64: 3, uint64: 4, int32: 5, fixed64: 6, fixed32: 7, bool: 8, string: 9,
  bytes: 12, uint32: 13, sfixed32: 15, sfixed64: 16, sint32: 17, sint64: 18,
}

export interface FileContents {
  name: string
  packageName: string
  imports: readonly string[]
  members: readonly ReflectionObject[] // at the top of the file; resolved
}

export function encodeFileDescriptor(
  protobuf: Protobuf,
  { name, packageName, imports, members }: FileContents,
) {
  const writer = minimal.Writer.create()
  writeText(writer, 1, name)
  writeText(writer, 2, packageName)
  for (const each of imports) writeText(writer, 3, each)
  for (const member of members) {
    if (member instanceof protobuf.Type) writeMessage(writer, 4, (to) => writeType(protobuf, to, member))
    else if (member instanceof protobuf.Enum) writeMessage(writer, 5, (to) => writeEnum(to, member))
    else if (member instanceof protobuf.Service) writeMessage(writer, 6, (to) => writeService(to, member))
  }
  writeText(writer, 12, 'proto3')
  return writer.finish()
}

/** DescriptorProto */
function writeType(protobuf: Protobuf, writer: Writer, type: Type): void {
  writeText(writer, 1, type.name)
  for (const field of type.fieldsArray) {
    const isMap = field instanceof protobuf.MapField
    writeMessage(writer, 2, (to) => writeField(protobuf, to, field, isMap))
    if (isMap) writeMessage(writer, 3, (to) => writeMapEntry(protobuf, to, field as MapField))
  }
  for (const nested of type.nestedArray) {
    if (nested instanceof protobuf.Type) writeMessage(writer, 3, (to) => writeType(protobuf, to, nested))
    else if (nested instanceof protobuf.Enum) writeMessage(writer, 4, (to) => writeEnum(to, nested))
  }
  for (const oneof of type.oneofsArray) writeMessage(writer, 8, (to) => writeText(to, 1, oneof.name))
}

/** FieldDescriptorProto */
function writeField(protobuf: Protobuf, writer: Writer, field: Field, isMap: boolean): void {
  writeText(writer, 1, field.name)
  writeNumber(writer, 3, field.id)
  writeNumber(writer, 4, field.repeated || isMap ? LABEL_REPEATED : LABEL_OPTIONAL)
  if (isMap) {
    writeNumber(writer, 5, TYPE_MESSAGE)
    writeText(writer, 6, `${field.parent!.fullName}.${getEntryName(field)}`)
  } else writeFieldType(protobuf, writer, field)
  if (field.partOf) writeNumber(writer, 9, (field.parent as Type).oneofsArray.indexOf(field.partOf))
  writeText(writer, 10, toJsonName(field.name))
}

function writeFieldType(protobuf: Protobuf, writer: Writer, { type, resolvedType }: FieldType): void {
  if (resolvedType === null) {
    writeNumber(writer, 5, SCALARS[type])
    return
  }
  writeNumber(writer, 5, resolvedType instanceof protobuf.Enum ? TYPE_ENUM : TYPE_MESSAGE)
  writeText(writer, 6, resolvedType.fullName)
}

/** A map is a repeated message of its own: `map<string, V> fields` has `FieldsEntry { string key; V value; }`. */
function writeMapEntry(protobuf: Protobuf, writer: Writer, field: MapField): void {
  writeText(writer, 1, getEntryName(field))
  const member = (name: string, id: number, writeItsType: Fill) =>
    writeMessage(writer, 2, (to) => {
      writeText(to, 1, name)
      writeNumber(to, 3, id)
      writeNumber(to, 4, LABEL_OPTIONAL)
      writeItsType(to)
      writeText(to, 10, name)
    })
  member('key', 1, (to) => writeNumber(to, 5, SCALARS[field.keyType]))
  member('value', 2, (to) => writeFieldType(protobuf, to, field))
  writeMessage(writer, 7, (to) => writeNumber(to, 7, 1)) // options: map_entry
}

/** EnumDescriptorProto */
function writeEnum(writer: Writer, { name, values }: Enum): void {
  writeText(writer, 1, name)
  for (const [value, id] of Object.entries(values)) {
    writeMessage(writer, 2, (to) => {
      writeText(to, 1, value)
      writeNumber(to, 2, id)
    })
  }
}

/** ServiceDescriptorProto */
function writeService(writer: Writer, service: Service): void {
  writeText(writer, 1, service.name)
  for (const method of service.methodsArray) {
    writeMessage(writer, 2, (to) => {
      writeText(to, 1, method.name)
      writeText(to, 2, method.resolvedRequestType!.fullName)
      writeText(to, 3, method.resolvedResponseType!.fullName)
      if (method.requestStream) writeNumber(to, 5, 1)
      if (method.responseStream) writeNumber(to, 6, 1)
    })
  }
}

/** As protoc names it: `response_headers` becomes `ResponseHeadersEntry`. */
function getEntryName({ name }: ReflectionObject): string {
  const camel = toJsonName(name)
  return `${camel[0].toUpperCase()}${camel.slice(1)}Entry`
}

function toJsonName(name: string): string {
  return name.replace(/_(.)/g, (_all, letter: string) => letter.toUpperCase())
}

function writeText(writer: Writer, field: number, value: string): void {
  writer.uint32((field << 3) | LENGTH).string(value)
}

function writeNumber(writer: Writer, field: number, value: number): void {
  writer.uint32((field << 3) | VARINT).int32(value)
}

function writeMessage(writer: Writer, field: number, fill: Fill): void {
  fill(writer.uint32((field << 3) | LENGTH).fork())
  writer.ldelim()
}
