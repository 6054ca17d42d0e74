/**
 * A name server of 127.0.0.1 that says what the test tells it, so that c-ares asks over a real socket.
 *
 *     const dns = await startDns()
 *     dns.setRecords('relay.example.org', { A: ['127.0.0.2'], AAAA: [] })
 *     dns.setRecords('rebind.example.org', [{ A: ['127.0.0.2'] }, { A: ['127.0.0.1'] }])   // one after another, the last stays
 *     dns.queries   // ['A relay.example.org', …]
 */
import { createSocket } from 'node:dgram'
import { parseAddress } from '../../../monitor/egress/address.ts'

export interface Zone {
  A?: string[]
  AAAA?: string[]
  CNAME?: string[]
  NS?: string[]
  code?: 'NXDOMAIN' | 'SERVFAIL' | 'REFUSED'
  silent?: ('A' | 'AAAA' | 'CNAME' | 'NS')[] // questions that get no answer
}

export interface Dns {
  server: string // address:port
  queries: string[] // `A name`, in order
  setRecords(name: string, zones: Zone | Zone[]): void
  close(): Promise<void>
}

const TYPES: Record<number, 'A' | 'NS' | 'CNAME' | 'AAAA'> = { 1: 'A', 2: 'NS', 5: 'CNAME', 28: 'AAAA' }
const CODES = { NXDOMAIN: 3, SERVFAIL: 2, REFUSED: 5 }

export async function startDns(): Promise<Dns> {
  const zones = new Map<string, Zone[]>()
  const queries: string[] = []
  const socket = createSocket('udp4')

  socket.on('message', (query, from) => {
    const { name, type, end } = readQuestion(query)
    queries.push(`${type} ${name}`)
    const answers = zones.get(name.toLowerCase()) ?? [{ code: 'NXDOMAIN' }]
    const turn = queries.filter((line) => line === `${type} ${name}`).length - 1
    const zone = answers[Math.min(turn, answers.length - 1)]
    if (zone.silent?.includes(type)) return
    const records = zone.code ? [] : (zone[type] ?? []).map((text) => record(type, text))
    const head = Buffer.from(query.subarray(0, 12))
    head.writeUInt16BE(0x8180 | (zone.code ? CODES[zone.code] : 0), 2)
    head.writeUInt16BE(records.length, 6)
    head.writeUInt32BE(0, 8)
    socket.send(Buffer.concat([head, query.subarray(12, end), ...records]), from.port, from.address)
  })
  await new Promise<void>((resolve) => socket.bind(0, '127.0.0.1', resolve))
  return {
    server: `127.0.0.1:${socket.address().port}`,
    queries,
    setRecords: (name, records) => zones.set(name, Array.isArray(records) ? records : [records]),
    close: () => new Promise((resolve) => socket.close(() => resolve())),
  }
}

function readQuestion(query: Buffer) {
  const labels: string[] = []
  let at = 12
  for (; query[at] !== 0; at += query[at] + 1)
    labels.push(query.toString('latin1', at + 1, at + 1 + query[at]))
  return { name: labels.join('.'), type: TYPES[query.readUInt16BE(at + 1)], end: at + 5 }
}

function record(type: keyof Zone & ('A' | 'AAAA' | 'CNAME' | 'NS'), text: string): Buffer {
  const data =
    type === 'A' || type === 'AAAA' ? Buffer.from(parseAddress(text) as Uint8Array) : nameBytes(text)
  const number = Object.entries(TYPES).find(([, name]) => name === type)?.[0]
  const head = Buffer.from([0xc0, 12, 0, Number(number), 0, 1, 0, 0, 0, 60, 0, 0]) // c00c: the name asked for
  head.writeUInt16BE(data.length, 10)
  return Buffer.concat([head, data])
}

function nameBytes(name: string): Buffer {
  const labels = name
    .split('.')
    .map((label) => Buffer.concat([Buffer.from([label.length]), Buffer.from(label)]))
  return Buffer.concat([...labels, Buffer.from([0])])
}
