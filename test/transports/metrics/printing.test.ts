import { execFileSync } from 'node:child_process'
import { closeSync, constants, createReadStream, openSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { printingSink } from '../../../transports/metrics/printing.ts'
import { cleanTags } from '../../../transports/metrics/tags.ts'
import { eventually } from '../../helpers/eventually.ts'
import { makeTemporaryFolder } from '../../helpers/temporary-folder.ts'
import { createSnapshot, notedLog } from './peers.ts'

test('7.3 12#31: without a sink each value is a JSON line, and a last one closes the flush', async () => {
  const folder = makeTemporaryFolder()
  const file = join(folder, 'out')
  const fd = openSync(file, 'w')
  const sink = printingSink(cleanTags({ zone: 'b' }), notedLog().log, fd, () => 1_795_267_728_250)
  sink.start()
  await sink.flush(
    createSnapshot({
      counters: [['ratelimit.service.config_load_success', 1]],
      gauges: [['runtime.num_values', 2.5]],
      timers: [
        {
          name: 'a "quoted" one',
          counts: [
            [3, 1],
            [4, 9],
          ],
        },
      ],
    }),
  )
  const line = (msg: string, json: string) =>
    `{"level":"debug","ts":1795267728.250000,"logger":"gostats.loggingsink","msg":"flushing ${msg}","json":{${json}}}\n`
  const expected = [
    line(
      'counter',
      '"name":"ratelimit.service.config_load_success.__zone=b","type":"counter","value":"1.000000"',
    ),
    line('gauge', '"name":"runtime.num_values.__zone=b","type":"gauge","value":"2.500000"'),
    line('timer', '"name":"a \\"quoted\\" one.__zone=b","type":"timer","value":"3.000000"'),
    line('timer', '"name":"a \\"quoted\\" one.__zone=b","type":"timer","value":"4.000000","samples":9'),
    line('all stats', '"type":"all stats","value":"0.000000"'),
  ]
  await eventually(() => expect(readFileSync(file, 'utf8')).toBe(expected.join('')))
  await sink.close()
  closeSync(fd)
})

test('7.3: a reader that stops costs a bounded queue, and gets whole lines when it continues', async () => {
  const folder = makeTemporaryFolder()
  const pipe = join(folder, 'pipe')
  execFileSync('mkfifo', [pipe])
  const fd = openSync(pipe, constants.O_RDWR | constants.O_NONBLOCK) // opens without a reader, and is not ended by one
  const { log, lines } = notedLog()
  const sink = printingSink([], log, fd)
  sink.start()
  const padding = 'x'.repeat(500)
  const name = (i: number) => `ratelimit.service.rate_limit.shop.rule_${i}_${padding}.total_hits`
  const counters = Array.from({ length: 15_000 }, (_, i): [string, number] => [name(i), 1]) // 10 MB; the queue is 4 MiB
  await sink.flush(createSnapshot({ counters }))
  const { dropped } = sink
  expect(dropped).toBeGreaterThan(3_000)

  let text = ''
  const reader = createReadStream(pipe, { encoding: 'utf8' }).on('data', (chunk) => {
    text += chunk
  })
  const printedLines = () =>
    text.split('\n').filter((line) => line.includes('"type":"counter"') && line.endsWith('}'))
  await eventually(() => expect(printedLines()).toHaveLength(counters.length - dropped))
  expect(printedLines().map((line) => JSON.parse(line).json.name)).toEqual(
    Array.from({ length: counters.length - dropped }, (_, i) => name(i)),
  )
  expect(lines).toEqual(['info: statistics go to standard output'])
  await sink.close()
  closeSync(fd)
  reader.destroy()
})

test.skipIf(process.platform !== 'linux')(
  '7.3: standard output that cannot be written is a line in the log',
  async () => {
    const fd = openSync('/dev/full', 'w')
    const { log, lines } = notedLog()
    const sink = printingSink([], log, fd)
    sink.start()
    await sink.flush(createSnapshot({ counters: [['a', 1]] }))
    await eventually(() => expect(lines).toHaveLength(2))
    expect(lines[1]).toMatch(/^warning: statistics: connection error: standard output: ENOSPC/)
    expect(sink.dropped).toBe(2) // with the last line of the flush
    await sink.close()
    closeSync(fd)
  },
)
