import { afterEach, expect, test } from 'vitest'
import {
  type Dial,
  ReconnectingWriter,
  type Writer,
} from '../../../transports/metrics/reconnecting-writer.ts'
import { eventually } from '../../helpers/eventually.ts'
import { notedLog } from './peers.ts'

const outlets: ReconnectingWriter[] = []
afterEach(async () => {
  for (const outlet of outlets.splice(0)) await outlet.close()
})

function open(dial: Dial): ReconnectingWriter {
  const sizes = { chunkBytes: 10, bytesMax: 100, lineBytesMax: 10 }
  const outlet = new ReconnectingWriter({ ...sizes, peer: 'peer', dial, log: notedLog().log, redialMs: 10 })
  outlet.start()
  outlets.push(outlet)
  return outlet
}

test('7.3: a chunk whose write failed is lost and counted, never sent again; the next ones wait', async () => {
  const written: string[] = []
  let dials = 0
  const dial = async (): Promise<Writer> => {
    const isFirst = ++dials === 1
    return {
      async write(bytes) {
        if (isFirst) throw new Error('reset')
        written.push(bytes.toString())
      },
      close() {},
    }
  }
  const outlet = open(dial)
  for (const line of ['aaaa\n', 'bbbb\n', 'cccc\n']) outlet.offer(line)
  outlet.push()
  await eventually(() => expect(written).toEqual(['cccc\n']))
  expect(outlet.lostLines).toBe(2)
  expect([outlet.lost, outlet.sent]).toEqual([
    { packets: 1, bytes: 10 },
    { packets: 1, bytes: 5 },
  ])
  expect(dials).toBe(2)
})

test('7.3: waiting for space without a connection returns at once', async () => {
  const outlet = open(() => new Promise(() => {})) // a dial without an end
  expect(await outlet.room(2 ** 30)).toBe(false)
})

test('7.3: waiting for space ends with the next write or with a lost connection', async () => {
  let finish: (() => void) | null = null
  let hangUp = (_: string): void => {}
  const dial: Dial = async (onGone) => {
    hangUp = onGone
    return { write: () => new Promise<void>((resolve) => (finish = resolve)), close() {} }
  }
  const outlet = open(dial)
  await new Promise(setImmediate)
  outlet.offer('aaaa\n')
  const first = outlet.room(2 ** 30)
  await eventually(() => expect(finish).not.toBe(null))
  finish!()
  expect(await first).toBe(true)
  const second = outlet.room(2 ** 30)
  hangUp('gone')
  expect(await second).toBe(false)
})
