import { spawn } from 'node:child_process'
import { availableParallelism } from 'node:os'
import { expect, onTestFinished, test } from 'vitest'
import { eventually } from '../helpers/eventually.ts'
import { RunDelayMeter } from './run-delay.ts'

test.runIf(process.platform === 'linux')(
  'processes that share the cores wait for them; one that has ended does not',
  async () => {
    const spin = () => {
      const child = spawn('sh', ['-c', 'while :; do :; done'])
      onTestFinished(() => void child.kill('SIGKILL'))
      return child
    }
    const [first] = Array.from({ length: 2 * availableParallelism() + 1 }, spin)
    const meter = new RunDelayMeter(first.pid!)
    onTestFinished(() => meter.stop())
    const startMs = performance.now()
    await eventually(() => expect(meter.sumBetween(startMs, performance.now())).toBeGreaterThan(20))
    expect(meter.sumBetween(startMs - 60_000, startMs - 50_000), 'before').toBe(0)
    const ended = new Promise((resolve) => first.once('exit', resolve))
    first.kill('SIGKILL')
    await ended
    const endMs = performance.now()
    expect(meter.sumBetween(endMs + 1, endMs + 2)).toBe(0)
  },
)
