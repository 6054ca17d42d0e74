/** What a caller can make us do with 4 MiB, the longest message and body there is by default. */
import { describe, expect, test } from 'vitest'
import { DESCRIPTOR_DEPTH_MAX } from '../../engine/config/bounds.ts'
import { BATCH_SLOTS_MAX } from '../../engine/stores/batch.ts'
import { DESCRIPTORS_MAX, ENTRIES_MAX } from '../../proto/bounds.ts'
import { decodeRequest, encodeRequest } from '../../proto/codec.ts'
import { requestFromJson } from '../../proto/json.ts'
import type { RateLimitRequest } from '../../proto/ratelimit.ts'

const MESSAGE_BYTES = 4 * 1024 * 1024
const READING_MAX_MS = 1_000 // some 20 to 100 ms on an idle machine; two million objects took 700

test('5.2: the maxima of the codecs are those of the engine', () => {
  expect(DESCRIPTORS_MAX).toBe(BATCH_SLOTS_MAX)
  expect(ENTRIES_MAX / DESCRIPTORS_MAX).toBeGreaterThan(10) // so that a request full of descriptors is a sane one
  expect(ENTRIES_MAX).toBeGreaterThan(100 * DESCRIPTOR_DEPTH_MAX)
})

/** Processor time, since the machine may be busy. */
function cpuMsSince(started: NodeJS.CpuUsage): number {
  const { user, system } = process.cpuUsage(started)
  return (user + system) / 1_000
}

describe('5.2: maxima of one message', () => {
  const request = (...entries: number[]): RateLimitRequest => ({
    domain: 'd',
    descriptors: entries.map((count) => ({
      entries: Array.from({ length: count }, () => ({ key: '', value: '' })),
      limit: null,
      hitsAddend: null,
    })),
    hitsAddend: 0,
  })
  const read = (...entries: number[]) => decodeRequest(encodeRequest(request(...entries)))

  test('descriptors', () => {
    expect(read(...Array(DESCRIPTORS_MAX).fill(0)).descriptors.length).toBe(DESCRIPTORS_MAX)
    expect(() => read(...Array(DESCRIPTORS_MAX + 1).fill(0))).toThrow(
      /^a request must not have more than 4096 descriptors$/,
    )
  })

  test('entries, of all descriptors together', () => {
    expect(read(ENTRIES_MAX - 1, 1).descriptors[0].entries.length).toBe(ENTRIES_MAX - 1)
    expect(() => read(1, ENTRIES_MAX)).toThrow(
      /^a request must not have more than 65536 entries in all its descriptors$/,
    )
    expect(read(1).descriptors.length).toBe(1) // each request starts at 0
  })
})

/** 4 MiB of the same bytes. */
const filled = (hex: string) => Buffer.alloc(MESSAGE_BYTES, Buffer.from(hex.replaceAll(' ', ''), 'hex'))

/** A message or body of 4 MiB: `before`, then `piece` again and again, then `after`. */
function filledText(before: string, piece: string, after: string): string {
  return before + piece.repeat((MESSAGE_BYTES - before.length - after.length) / piece.length) + after
}

describe('5.2: a message full of', () => {
  const beginning = Buffer.from('12faffff01', 'hex') // a descriptor of 4 MiB less six bytes
  const descriptor = (hex: string) => Buffer.concat([beginning, filled(hex).subarray(0, MESSAGE_BYTES - 6)])
  // biome-ignore format: the columns are the specification
  const cases = [
    ['empty descriptors',         filled('12 00')],
    ['descriptors of one entry',  filled('12 02 0a 00')],
    ['empty entries',             descriptor('0a 00')],
    ['limits of one descriptor',  descriptor('12 00')],
    ['hits of one descriptor',    descriptor('1a 00')],
    ['domains',                   filled('0a 00')],
    ['domains of one letter',     filled('0a 01 61')],
    ['unknown fields',            filled('78 00')],
    ['groups in groups',          filled('7b')],
    ['one tag',                   filled('80')],
  ] as const
  for (const [name, bytes] of cases) {
    test(`${name} is read or refused quickly`, () => {
      const started = process.cpuUsage()
      try {
        decodeRequest(bytes)
      } catch (error) {
        expect((error as Error).message).toMatch(/more than|index out of range|depth|invalid (tag|varint)/)
      }
      expect(cpuMsSince(started)).toBeLessThan(READING_MAX_MS)
    })
  }
})

describe('6.3: a body full of', () => {
  // biome-ignore format: the columns are the specification
  const cases = [
    ['empty descriptors',      filledText('{"descriptors":[', '{},', '{}]}'),                     /more than 4096 descriptors$/],
    ['empty entries',          filledText('{"descriptors":[{"entries":[', '{},', '{}]}]}'),       /more than 65536 entries/],
    ['white space',            filledText('', ' ', '{}'),                                         /^$/],
    ['escapes',                filledText('{"domain":"', '\\n', '"}'),                            /^$/],
    ['quotes',                 filledText('{"domain":', '"', ''),                                 /expected "," or "}"/],
    ['backslashes',            filledText('{"domain":"', '\\', ''),                               /end of the string|invalid escape/],
    ['digits',                 filledText('{"hitsAddend":', '1', '}'),                            /expected at most/],
    ['zeros after the point',  filledText('{"hitsAddend":1.', '0', '1}'),                         /expected a whole number/],
    ['digits of an exponent',  filledText('{"hitsAddend":1e', '1', '}'),                          /expected at most/],
    ['lists in lists',         filledText('{"descriptors":', '[', ''),                            /expected an object, got a list/],
    ['one name',               filledText('{"', 'x', '":1}'),                                     /^unknown field "x{40}…"$/],
    ['half surrogate pairs',   filledText('{"domain":"', '\\ud800', '"}'),                        /surrogate/],
  ] as const
  for (const [name, text, message] of cases) {
    test(`${name} is read or refused quickly`, () => {
      const started = process.cpuUsage()
      let refused = ''
      try {
        requestFromJson(text)
      } catch (error) {
        refused = (error as Error).message
      }
      expect(cpuMsSince(started)).toBeLessThan(READING_MAX_MS)
      expect(refused).toMatch(message)
      expect(refused.length).toBeLessThan(200)
    })
  }
})
