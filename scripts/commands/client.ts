/**
 * `sluice client`: sends one request to any rate limit service over gRPC and prints the response (spec 11.4).
 *
 *     $ sluice client -dial_string localhost:8081 -domain shop -descriptors user=7,plan=free
 *     Flag: --descriptors="[ <key=user, value=7>  <key=plan, value=free> ] "
 *     ...
 *     response: overall_code:OK statuses:{code:OK current_limit:{requests_per_unit:5 unit:MINUTE} ...}
 *
 * Exit codes: 0 a response, over limit or not; 1 no response; 2 wrong usage. A call has no deadline; a connection that
 * cannot be established fails immediately.
 */
import { readFileSync } from 'node:fs'
import { Client, type ClientOptions, credentials, type ServiceError } from '@grpc/grpc-js'
import { decodeResponse, encodeRequest } from '../../proto/codec.ts'
import type { Descriptor, RateLimitRequest, RateLimitResponse } from '../../proto/ratelimit.ts'
import { quote, responseToText } from '../../proto/text.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'
import { statusName } from '../../transports/grpc/status.ts'
import type { Io } from './io.ts'

const USAGE = `Usage of sluice client (one dash or two, -flag value or -flag=value):
  -descriptors k=v,k2=v2         a descriptor; repeat the flag for more of them
  -dial_string host:port         where the service listens (default localhost:8081)
  -domain name                   the domain of the request
  -grpc-cert-file file           client certificate, PEM
  -grpc-key-file file            its key, PEM
  -grpc-server-ca-file file      CA of the service's certificate, PEM (default: the root certificates of Node)
  -grpc-use-tls                  use TLS
  -oltp-protocol http|grpc       accepted for compatibility; this client sends no traces
`

/** An invalid flag; the message is printed above the usage. */
class UsageError extends Error {}

export async function client(args: string[], { stdout, stderr }: Io): Promise<number> {
  let flags: Flags
  try {
    flags = parseFlags(args)
  } catch (error) {
    if (!(error instanceof UsageError)) throw error
    stderr.write(`${error.message}\n${USAGE}`)
    return 2
  }
  if (flags.wantsHelp) {
    stdout.write(USAGE)
    return 0
  }
  stdout.write(flagLines(flags))
  if (flags.text['oltp-protocol'] !== '')
    stderr.write('note: -oltp-protocol is set, but this client sends no traces\n')
  let grpc: Client
  try {
    grpc = connect(flags)
  } catch (error) {
    stdout.write(`error connecting: ${(error as Error).message}\n`)
    return 1
  }
  try {
    const request = { domain: flags.text.domain, descriptors: flags.descriptors, hitsAddend: 1 }
    stdout.write(`response: ${responseToText(await sendRequest(grpc, request))}\n`)
    return 0
  } catch (error) {
    const { code, details } = error as ServiceError
    stdout.write(`request error: rpc error: code = ${statusName(code)} desc = ${details}\n`)
    return 1
  } finally {
    grpc.close()
  }
}

interface Flags {
  text: {
    dial_string: string
    domain: string
    'grpc-cert-file': string
    'grpc-key-file': string
    'grpc-server-ca-file': string
    'oltp-protocol': string
  }
  usesTls: boolean
  descriptors: Descriptor[]
  wantsHelp: boolean
}

/** Flags end at the first argument that is not a flag, or after `--`; the rest is ignored. */
function parseFlags(args: string[]): Flags {
  const flags: Flags = {
    text: {
      dial_string: 'localhost:8081',
      domain: '',
      'grpc-cert-file': '',
      'grpc-key-file': '',
      'grpc-server-ca-file': '',
      'oltp-protocol': '',
    },
    usesTls: false,
    descriptors: [],
    wantsHelp: false,
  }
  for (let i = 0; i < args.length; i++) {
    const [, name, inlineValue] = /^--?([^-=][^=]*)(?:=(.*))?$/s.exec(args[i]) ?? []
    if (name === undefined) {
      if (args[i].length < 2 || !args[i].startsWith('-') || args[i] === '--') break
      throw new UsageError(`bad flag syntax: ${args[i]}`)
    }
    if (name === 'h' || name === 'help') {
      flags.wantsHelp = true
    } else if (name === 'grpc-use-tls') {
      flags.usesTls = parseYesNo(inlineValue ?? 'true')
    } else if (name === 'descriptors' || Object.hasOwn(flags.text, name)) {
      const value = inlineValue ?? args[++i]
      if (value === undefined) throw new UsageError(`flag needs an argument: -${name}`)
      if (name === 'descriptors') flags.descriptors.push(parseDescriptor(value))
      else flags.text[name as keyof Flags['text']] = value
    } else throw new UsageError(`flag provided but not defined: -${name}`)
  }
  return flags
}

/** `k=v,k2=v2`: exactly one `=` per pair, so values hold neither `=` nor `,`. */
function parseDescriptor(text: string): Descriptor {
  const entries = text.split(',').map((pair) => {
    const [key, value, more] = pair.split('=')
    if (value === undefined || more !== undefined) {
      throw new UsageError(`invalid value ${quote(text)} for flag -descriptors: invalid descriptor list`)
    }
    return { key, value }
  })
  return { entries, limit: null, hitsAddend: null }
}

function parseYesNo(text: string): boolean {
  if (/^(1|t|T|TRUE|true|True)$/.test(text)) return true
  if (/^(0|f|F|FALSE|false|False)$/.test(text)) return false
  throw new UsageError(`invalid boolean value ${quote(text)} for -grpc-use-tls: parse error`)
}

/** One line per flag, sorted by name. */
function flagLines({ text, usesTls, descriptors }: Flags): string {
  const shown = descriptors.map(({ entries }) => {
    const pairs = entries.map(({ key, value }) => ` <key=${key}, value=${value}> `)
    return `[${pairs.join('')}] `
  })
  const values: Record<string, string> = {
    ...text,
    'grpc-use-tls': String(usesTls),
    descriptors: shown.join(''),
  }
  const names = Object.keys(values).sort()
  return names.map((name) => `Flag: --${name}=${quote(values[name])}\n`).join('')
}

/** Creates the client without connecting. Throws for a file that cannot be read or is not a certificate. */
function connect({ text, usesTls }: Flags): Client {
  const file = (path: string) => (path === '' ? null : readFileSync(path))
  const options: ClientOptions = { 'grpc.max_receive_message_length': -1, 'grpc.enable_retries': 0 }
  if (!usesTls) return new Client(text.dial_string, credentials.createInsecure(), options)
  const ca = file(text['grpc-server-ca-file'])
  const key = file(text['grpc-key-file'])
  const certificate = file(text['grpc-cert-file'])
  return new Client(text.dial_string, credentials.createSsl(ca, key, certificate), options)
}

function sendRequest(grpc: Client, request: RateLimitRequest): Promise<RateLimitResponse> {
  return new Promise((resolve, reject) => {
    grpc.makeUnaryRequest(
      SHOULD_RATE_LIMIT,
      (message: RateLimitRequest) => Buffer.from(encodeRequest(message)),
      decodeResponse,
      request,
      (error, response) => (error === null ? resolve(response!) : reject(error)),
    )
  })
}
