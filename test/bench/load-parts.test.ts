/** The parts of the load generator that its figures depend on: histogram, keys, requests, responses, header blocks, CPU. */

import { spawn } from 'node:child_process'
import { once } from 'node:events'
import fc from 'fast-check'
import { expect, test } from 'vitest'
import {
  CODE_MASK,
  classifyResponse,
  DEGRADED,
  DEGRADED_POLICIES,
  LIMITED,
  POLICY_SHIFT,
  WRONG,
} from '../../bench/load/classify-response.ts'
import { CpuMeter, cpuMs } from '../../bench/load/cpu.ts'
import { createHeadBlocks, PACKED_PATH } from '../../bench/load/grpc-request-head.ts'
import { ResponseHeadReader } from '../../bench/load/grpc-response-head.ts'
import { Histogram } from '../../bench/load/histogram.ts'
import { classifyJson } from '../../bench/load/http-connection.ts'
import { parseKeys } from '../../bench/load/keys.ts'
import { Recorder } from '../../bench/load/recorder.ts'
import { jsonRequest, protobufRequest, Template } from '../../bench/load/requests.ts'
import { decodeRequest } from '../../proto/codec.ts'
import { HeaderDecoder } from '../../transports/grpc/http2/hpack.ts'
import { unpackHuffman } from '../../transports/grpc/http2/huffman.ts'
import { SHOULD_RATE_LIMIT } from '../../transports/grpc/services.ts'

const latencies = fc.array(fc.double({ min: 0.0001, max: 200_000, noNaN: true }), {
  minLength: 1,
  maxLength: 300,
})

test('a histogram gives the quantiles of the sorted values, to 0.4 % and half a tick', () => {
  fc.assert(
    fc.property(latencies, fc.double({ min: 0, max: 1, noNaN: true }), (all, share) => {
      const histogram = new Histogram()
      for (const ms of all) histogram.add(ms)
      const sorted = all.toSorted((a, b) => a - b)
      const exact = sorted[Math.max(1, Math.ceil(share * all.length)) - 1]
      expect(Math.abs(histogram.quantileMs(share) - exact)).toBeLessThanOrEqual(exact * 0.004 + 0.000051)
      expect(histogram.maxMs).toBeCloseTo(sorted.at(-1)!, 4)
      expect(histogram.minMs).toBeCloseTo(sorted[0], 4)
      expect(histogram.buckets().reduce((sum, { count }) => sum + count, 0)).toBe(all.length)
    }),
  )
})

test('histograms of intervals add up to the histogram of all', () => {
  fc.assert(
    fc.property(latencies, latencies, (some, others) => {
      const [a, b, both] = [new Histogram(), new Histogram(), new Histogram()]
      for (const ms of some) a.add(ms)
      for (const ms of others) b.add(ms)
      for (const ms of [...some, ...others]) both.add(ms)
      a.merge(b)
      expect(a).toEqual(both)
    }),
  )
})

test('zipf: key k comes 1/(k+1) as often as key 0; the same seed yields the same keys', () => {
  const [next, again, other] = [7, 7, 8].map((seed) => parseKeys('zipf:1000')!.start(seed))
  const counts = new Array(1_000).fill(0)
  const [first, second, third] = [next, again, other].map((each) =>
    Array.from({ length: 200_000 }, () => each(0)),
  )
  for (const key of first) counts[key]++
  expect(second).toEqual(first)
  expect(third).not.toEqual(first)
  for (const key of [1, 3, 9]) expect(counts[0] / counts[key] / (key + 1)).toBeCloseTo(1, 1)
})

test('uniform: all keys, equally often; hot: one key per descriptor', () => {
  const uniform = parseKeys('uniform:10')!.start(7)
  const counts = new Array(10).fill(0)
  for (let i = 0; i < 100_000; i++) counts[uniform(0)]++
  for (const count of counts) expect(Math.abs(count - 10_000)).toBeLessThan(500)
  const hot = parseKeys('hot')!.start(7)
  expect([hot(0), hot(1), hot(0)]).toEqual([0, 1, 0])
})

// biome-ignore format: a table
for (const text of ['', 'hot:1', 'zipf', 'zipf:0', 'zipf:1000001', 'uniform:1000000001', 'zipf:1e3']) {
  test(`"${text}" is not a kind of keys`, () => expect(parseKeys(text)).toBeNull())
}

test('a request has the keys drawn for it, as protobuf and as JSON', () => {
  const keys = parseKeys('uniform:1000000000')!
  for (const [descriptors, entries] of [
    [1, 1],
    [2, 2],
    [10, 2],
  ]) {
    // biome-ignore format: pairs
    const shape = { domain: 'shop', descriptors, entries, hits: 3, keys }
    const drawn = [0, 999_999_999, 12_345, ...Array(7).fill(8)].slice(0, descriptors)
    const filled = (blank: Buffer) => {
      const bytes = Buffer.alloc(blank.length + 1)
      new Template(blank, shape).write(bytes, 1, (i) => drawn[i])
      return bytes.subarray(1)
    }
    const all = drawn.map((key) => [
      { key: 'user', value: `u-${String(key).padStart(9, '0')}` },
      { key: 'path', value: '/api/v1/items' },
    ])
    const expected = all.map((each) => ({ entries: each.slice(0, entries) }))
    const decoded = decodeRequest(filled(protobufRequest(shape)))
    expect(decoded).toMatchObject({ domain: 'shop', hitsAddend: 3, descriptors: expected })
    const json = JSON.parse(filled(jsonRequest(shape)).toString())
    expect(json).toEqual({ domain: 'shop', hitsAddend: 3, descriptors: expected })
  }
})

// biome-ignore format: a table
const responses: [string, number, number][] = [
  // bytes                                     descriptors  class
  ['0801 1202 0801 1202 0801',                       2, 1],
  ['0802 1202 0802 1202 0801',                       2, 2],
  ['0801 1204 0801 1200 1202 0801',                  2, 1 | LIMITED], // a limit with one of two
  ['0802 1206 1202 0805 0802',                       1, 2 | LIMITED],
  ['0801 1207 0801 1a03 616263',                     1, 1],     // an unknown field
  ['1a02 0a00 0801 1202 0801',                       1, 1],     // the overall code after a header
  ['0801 1202 0801 1202 0801',                       1, WRONG], // one too many
  ['1202 0801',                                      1, WRONG], // no overall code
  ['0801 1202 0800',                                 1, WRONG],
  ['0801 1203 0801',                                 1, WRONG], // longer than there is
  ['0801 1202 0801 08',                              1, WRONG], // cut short
  ['0801 1202 0801 1aff ffff ff0f',                  1, WRONG],
  ['0801 1202 0801 07',                              1, WRONG], // field 0
  ['',                                               1, WRONG],
]

const degradedHeader = (name: string) =>
  Buffer.from(`\x1a\x1b\x0a\x14${name}\x12\x03abc`, 'latin1').toString('hex')

test('a response with the header of a degraded answer is DEGRADED', () => {
  const classify = (hex: string) => classifyResponse(Buffer.from(hex, 'hex'), 0, hex.length / 2, 1)
  expect(classify(`080112020801${degradedHeader('x-ratelimit-degraded')}`)).toBe(1 | DEGRADED)
  expect(classify(`${degradedHeader('x-ratelimit-degraded')}08021206080212020805`)).toBe(
    2 | LIMITED | DEGRADED,
  )
  expect(classify(`080112020801${degradedHeader('x-ratelimit-degradeD')}`)).toBe(1)
  expect(classify(`080112020801${degradedHeader('x-ratelimit-degraded').slice(0, -2)}`)).toBe(WRONG) // cut short
})

test.each(['allow', 'deny', 'local', 'error', 'allo', 'allows'])(
  'a degraded answer names its policy: %s',
  (name) => {
    const value = `\x0a\x14x-ratelimit-degraded\x12${String.fromCharCode(name.length)}${name}`
    const header = Buffer.from(`\x1a${String.fromCharCode(value.length)}${value}`, 'latin1')
    const bytes = Buffer.concat([Buffer.from('080112020801', 'hex'), header])
    const policy = Math.max(0, (DEGRADED_POLICIES as readonly string[]).indexOf(name))
    expect(classifyResponse(bytes, 0, bytes.length, 1)).toBe(1 | DEGRADED | (policy << POLICY_SHIFT))
  },
)

for (const [hex, descriptors, expected] of responses) {
  test(`the response <${hex}> to ${descriptors} descriptors is ${expected}`, () => {
    const bytes = Buffer.from(`ffff${hex.replaceAll(' ', '')}ff`, 'hex')
    expect(classifyResponse(bytes, 2, bytes.length - 1, descriptors)).toBe(expected)
  })
}

test('any bytes are classified', () => {
  fc.assert(
    fc.property(fc.uint8Array({ maxLength: 40 }), (bytes) => {
      const code = classifyResponse(bytes, 0, bytes.length, 1)
      if (code !== WRONG) {
        expect([1, 2]).toContain(code & CODE_MASK)
        expect(code & ~(CODE_MASK | LIMITED | DEGRADED | (3 << POLICY_SHIFT))).toBe(0)
      }
    }),
  )
})

// biome-ignore format: a table
const jsonResponses: [number, string, string][] = [
  [200, '{"overallCode":"OK","statuses":[{"code":"OK"}]}', ''],
  [429, '{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT"}]}', ''],
  [200, '{"overallCode":"OVER_LIMIT","statuses":[{"code":"OVER_LIMIT"}]}', 'wrong response: OVER_LIMIT with 200'],
  [200, '{"overallCode":"OK","statuses":[]}', 'wrong response: not one status, OK or OVER_LIMIT, per descriptor'],
  [200, '{"overallCode":"OK","statuses":[{}]}', 'wrong response: not one status, OK or OVER_LIMIT, per descriptor'],
  [200, 'null', 'wrong response: not one status, OK or OVER_LIMIT, per descriptor'],
  [200, '{', 'wrong response: not JSON'],
  [500, '', 'HTTP status 500'],
]

for (const [status, body, reason] of jsonResponses) {
  test(`HTTP ${status} ${body} is ${reason || 'valid'}`, () =>
    expect(classifyJson(status, body, 1).reason).toBe(reason))
}

test('a JSON response that names a limit is LIMITED', () => {
  const format = (status: string) => `{"overallCode":"OK","statuses":[{"code":"OK"${status}}]}`
  expect(classifyJson(200, format(''), 1).code).toBe(1)
  expect(classifyJson(200, format(',"currentLimit":{"requestsPerUnit":9,"unit":"HOUR"}'), 1).code).toBe(
    1 | LIMITED,
  )
})

test('errors are counted by cause: codes are part of it, other numbers and quoted parts are not', () => {
  const recorder = new Recorder(false)
  for (let i = 0; i < 100; i++) recorder.addFailure(`gRPC status 14 no node for "u-${i}", try ${i}`)
  for (const code of [13, 4]) recorder.addFailure(`gRPC status ${code} no node for "u-1", try 1`)
  recorder.addFailure('a\x1b[2Jb')
  expect(recorder.errorCount).toBe(103)
  expect(recorder.errors).toEqual({
    'gRPC status 14 no node for "u-0", try 0 (and the like)': 100,
    'gRPC status 13 no node for "u-1", try 1': 1,
    'gRPC status 4 no node for "u-1", try 1': 1,
    'a [2Jb': 1,
  })
  const letters = [...'abcdefghijklmnopqrstuvwxyz']
  for (const letter of letters) recorder.addFailure(letter)
  expect(recorder.errors['other errors']).toBe(letters.length - 16)
})

// biome-ignore format: a table
const messages: [string, string][] = [
  ['no%20rule%3A%20%C3%A4', 'no rule: \u00e4'],
  ['50% off',               '50% off'],
  ['%ff',                   '%ff'],
]

for (const [sent, decoded] of messages) {
  test(`the grpc-message ${sent} is ${decoded}`, () => {
    const value = Buffer.from(sent)
    const name = Buffer.from('grpc-message')
    const block = Buffer.concat([Buffer.from([0, name.length]), name, Buffer.from([value.length]), value])
    expect(new ResponseHeadReader().read(block, 0, block.length).grpcMessage).toBe(decoded)
  })
}

for (const tableBytes of [4_096, 0]) {
  test(`the header fields of each call, with a table of ${tableBytes} bytes at the server`, () => {
    const blocks = createHeadBlocks('127.0.0.1:8081', '20m', tableBytes)
    const decoder = new HeaderDecoder(() => 1)
    for (const block of [blocks.first, blocks.later, blocks.later]) {
      const fields: [string, string][] = []
      decoder.decode(block, 0, block.length, { field: (_kind, name, value) => fields.push([name, value]) })
      expect(Object.fromEntries(fields)).toEqual({
        ':method': 'POST',
        ':scheme': 'http',
        ':path': SHOULD_RATE_LIMIT,
        ':authority': '127.0.0.1:8081',
        te: 'trailers',
        'content-type': 'application/grpc',
        'user-agent': 'sluice-load',
        'grpc-timeout': '20m',
      })
    }
    const into = Buffer.alloc(100)
    const length = unpackHuffman(PACKED_PATH, 0, PACKED_PATH.length, into)
    expect(into.toString('latin1', 0, length)).toBe(SHOULD_RATE_LIMIT)
  })
}

test('response heads are remembered only while the table does not change', () => {
  const heads = new ResponseHeadReader()
  const read = (hex: string) => heads.read(Buffer.from(hex, 'hex'), 0, hex.length / 2)
  const adds = (status: string) =>
    `400b${Buffer.from('grpc-status').toString('hex')}01${Buffer.from(status).toString('hex')}`
  expect(read(adds('0')).grpcStatus).toBe(0)
  expect(read('be').grpcStatus).toBe(0) // 62: the newest field
  expect(read('be').grpcStatus).toBe(0) // remembered
  expect(read(adds('5')).grpcStatus).toBe(5)
  expect(read('be').grpcStatus).toBe(5) // the same bytes mean something else now
  expect(read('88')).toMatchObject({ status: 200, grpcStatus: -1 })
})

test('the processor time of a process and its children is what they report themselves', async () => {
  const spin = `const report = () => console.log(JSON.stringify({ pid: process.pid, ...process.cpuUsage() }))
    const until = process.cpuUsage().user + 200_000; while (process.cpuUsage().user < until);
    process.on('SIGUSR2', report); report(); setInterval(() => {}, 1000)`
  const child = spawn('sh', ['-c', '"$0" -e "$1" </dev/null & read -r _; kill "$!"', process.execPath, spin])
  const meter = async () => new CpuMeter({ name: 'child', pids: [child.pid!] })
  const readReport = async () => {
    const [text] = await once(child.stdout, 'data')
    const { pid, user, system } = JSON.parse(String(text))
    return { pid, ms: (user + system) / 1_000 }
  }
  const { pid, ms: before } = await readReport()
  const read = (await meter()).read()
  const used = cpuMs({ threads: new Map([...read.threads.keys()].map((key) => [key, 0])), ticks: 0 }, read)
  process.kill(pid, 'SIGUSR2')
  const { ms: after } = await readReport()
  child.stdin.end('\n')
  expect(used).toBeGreaterThan(before - 30)
  expect(used).toBeLessThan(after + 30) // includes its work until the second report
})
