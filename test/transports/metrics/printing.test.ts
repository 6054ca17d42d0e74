import { closeSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { printingSink } from '../../../transports/metrics/printing.ts'
import { cleanTags } from '../../../transports/metrics/tags.ts'
import { eventually, notedLog, snapshotOf } from './peers.ts'

test('7.3 12#31: without a sink each value is a JSON line, and a last one closes the flush', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'printing-'))
  const file = join(folder, 'out')
  const fd = openSync(file, 'w')
  const sink = printingSink(cleanTags({ zone: 'b' }), notedLog().log, fd, () => 1_795_267_728_250)
  sink.start()
  await sink.flush(
    snapshotOf({
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
  rmSync(folder, { recursive: true })
})
