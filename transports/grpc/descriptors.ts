/**
 * The .proto files that reflection serves: bytes by file name, and file names by symbol.
 *
 *     rls.proto ── protobufjs parses ──► its messages, enums, services ──► descriptor-bytes.ts
 *               └─ imports ────────────► the same for each
 *
 * Loading takes 20 ms of one worker, once, when reflection is first used.
 */
import { readFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { ReflectionObject } from 'protobufjs'
import { encodeFileDescriptor } from './descriptor-bytes.ts'

type Protobuf = typeof import('protobufjs')

const PROTO = new URL('../../proto/', import.meta.url) // the same relative path in dist/

interface File {
  bytes: Uint8Array
  imports: readonly string[]
}

export class Descriptors {
  private readonly files = new Map<string, File>()
  private readonly fileNames = new Map<string, string>() // by symbol

  /** Reads these files, relative to proto/, and their imports. Throws when one is missing or does not parse. */
  constructor(names: readonly string[]) {
    const protobuf: Protobuf = createRequire(import.meta.url)('protobufjs') // the full build, with the parser
    const root = new protobuf.Root()
    const parsed = parseAll(protobuf, names, root)
    root.resolveAll()
    for (const [name, { package: packageName = '', imports = [] }] of parsed) {
      const members = root.define(packageName).nestedArray.filter((member) => member.filename === name)
      this.files.set(name, {
        bytes: encodeFileDescriptor(protobuf, { name, packageName, imports, members }),
        imports,
      })
      for (const member of members) {
        for (const symbol of listSymbols(protobuf, member)) this.fileNames.set(symbol, name)
      }
    }
  }

  /** The file, then its imports, each a FileDescriptorProto; null = unknown name. */
  byName(name: string): Uint8Array[] | null {
    if (!this.files.has(name)) return null
    const fileNames = new Set([name])
    for (const each of fileNames) for (const more of this.files.get(each)!.imports) fileNames.add(more)
    return [...fileNames].map((each) => this.files.get(each)!.bytes)
  }

  /** The same for the file that defines `package.Service`, `package.Message.field` and so on. */
  bySymbol(symbol: string): Uint8Array[] | null {
    return this.byName(this.fileNames.get(symbol) ?? '')
  }
}

/** Files by name, imports included. Their definitions are added to `root`. */
function parseAll(protobuf: Protobuf, names: readonly string[], root: InstanceType<Protobuf['Root']>) {
  const parsed = new Map<string, ReturnType<Protobuf['parse']>>()
  const wanted = new Set(names)
  for (const name of wanted) {
    const text = readFileSync(new URL(name, PROTO), 'utf8')
    Object.assign(protobuf.parse, { filename: name }) // recorded in each definition; missing in the library's types
    const result = protobuf.parse(text, root, { keepCase: true })
    parsed.set(name, result)
    for (const more of result.imports ?? []) wanted.add(more)
  }
  return parsed
}

/** The full names of services, methods, messages, fields, oneofs, enums and enum values. */
function* listSymbols(protobuf: Protobuf, object: ReflectionObject): Iterable<string> {
  const { Type, Service, Enum } = protobuf
  yield object.fullName.slice(1)
  const within: ReflectionObject[] = []
  if (object instanceof Type) within.push(...object.fieldsArray, ...object.oneofsArray, ...object.nestedArray)
  if (object instanceof Service) within.push(...object.methodsArray)
  for (const each of within) yield* listSymbols(protobuf, each)
  if (object instanceof Enum) {
    const scope = object.parent!.fullName.slice(1) // values are siblings of their enum
    for (const value of Object.keys(object.values)) yield `${scope}.${value}`
  }
}
