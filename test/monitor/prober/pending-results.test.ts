/** Failures that wait for their connectivity check, and later results of the same site. */
import { expect, test } from 'vitest'
import type { Outcome } from '../../../monitor/facts.ts'
import { PendingResults } from '../../../monitor/prober/pending-results.ts'

const timings = { dnsMs: null, connectMs: null, tlsMs: null, ttfbMs: null, totalMs: null }

/** Results are numbered by their second; a failure is settled when the checks have come to it. */
function start() {
  const published: string[] = []
  let checkedSec = 0
  const pending = new PendingResults(
    ({ outcome, atSec }) => outcome !== 'down' || atSec <= checkedSec,
    ({ siteId, probe }) => published.push(`site ${siteId}: ${probe.outcome} ${probe.atSec}`),
  )
  const add = (siteId: number, outcome: Outcome, atSec: number) => {
    const probe = { atSec, kind: 'light', outcome, error: null, httpStatus: null, timings } as const
    pending.add({ siteId, probe, observation: null })
  }
  const check = (atSec: number) => {
    checkedSec = atSec
    pending.releaseSettled()
  }
  return { pending, add, check, published }
}

test('6.5: successes are published at once, and so are failures whose check ended before them', () => {
  const { add, check, published } = start()
  check(10)
  add(1, 'up', 11)
  add(2, 'down', 10)
  expect(published).toEqual(['site 1: up 11', 'site 2: down 10'])
})

test('6.5: a failure waits for its check, later results of its site wait behind it, other sites do not', () => {
  const { add, check, published } = start()
  add(1, 'down', 1)
  add(1, 'up', 2)
  add(1, 'down', 3)
  add(2, 'up', 2)
  expect(published).toEqual(['site 2: up 2'])
  check(2)
  expect(published.slice(1)).toEqual(['site 1: down 1', 'site 1: up 2'])
  check(3)
  expect(published.slice(3)).toEqual(['site 1: down 3'])
  add(1, 'up', 4)
  expect(published.slice(4)).toEqual(['site 1: up 4'])
})

test('6.5: beyond four of one site the oldest is published as known so far', () => {
  const { add, published } = start()
  for (let atSec = 1; atSec <= 6; atSec++) add(1, 'down', atSec)
  expect(published).toEqual(['site 1: down 1', 'site 1: down 2'])
})

test('6.5: results of a removed site are discarded; at the end the rest is published in order', () => {
  const { pending, add, check, published } = start()
  add(1, 'down', 1)
  add(2, 'down', 1)
  add(2, 'up', 2)
  pending.drop(1)
  pending.releaseAll()
  expect(published).toEqual(['site 2: down 1', 'site 2: up 2'])
  check(9)
  expect(published).toHaveLength(2)
})
