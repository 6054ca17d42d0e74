import { expect, test } from 'vitest'
import { Progress } from '../../../../scripts/commands/demo/progress.ts'

function record(isTTY: boolean, columns?: number) {
  const written: string[] = []
  const progress = new Progress({ isTTY, columns, write: (text) => written.push(text) })
  return { written, progress }
}

test('a terminal shows one line, which is rewritten and removed', () => {
  const { written, progress } = record(true)
  progress.show('Starting relays')
  progress.show('Generating', 0)
  progress.show('Generating', 0.999)
  progress.clear()
  progress.clear()
  expect(written).toEqual([
    '\r\x1b[KStarting relays',
    '\r\x1b[KGenerating: 0 %',
    '\r\x1b[KGenerating: 99 %',
    '\r\x1b[K',
  ])
})

test('a line never wraps: it is cut to the terminal', () => {
  const { written, progress } = record(true, 10)
  progress.show('Generating 30 days')
  expect(written).toEqual(['\r\x1b[KGeneratin'])
})

test('elsewhere each stage is a plain line, once', () => {
  const { written, progress } = record(false)
  progress.show('Generating', 0)
  progress.show('Generating', 0.5)
  progress.show('Starting the monitor')
  progress.clear()
  expect(written).toEqual(['Generating\n', 'Starting the monitor\n'])
})
