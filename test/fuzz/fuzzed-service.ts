/**
 * The service under fuzz tests, and its state afterwards: alive, no defect in its log, correct responses.
 */
import { expect } from 'vitest'
import { postJson, type RunningService, startService } from '../helpers/service.ts'

export const BODY_BYTES_MAX = 4_096

/** Errors of clients, the start, and the lint warning on RULES: `user` is followed by a node that is limited, too. */
const EXPECTED =
  / msg="?(error: |Listening for |.*a value chosen by clients can reach another rule's counter)/

// years: no window ends while the test runs
const RULES = `
domain: fuzz
descriptors:
  - key: user
    rate_limit: { unit: year, requests_per_unit: 100 }
    metadata: { team: [a, 1, { deep: true }] }
    descriptors:
      - key: plan
        value: "7"
        rate_limit: { unit: year, requests_per_unit: 1000000, name: paid, replaces: [{ name: free }] }
  - key: plan
    rate_limit: { unlimited: true }
  - key: path
    shadow_mode: true
    rate_limit: { unit: year, requests_per_unit: 1, name: free }
  - key: afterwards
    rate_limit: { unit: year, requests_per_unit: 2 }
`

export function startFuzzed(): Promise<RunningService> {
  return startService({
    rules: { 'limits.yaml': RULES },
    env: {
      WORKERS: '2',
      BACKEND_TYPE: 'memory',
      HTTP_BODY_MAX_BYTES: String(BODY_BYTES_MAX),
      RESPONSE_DYNAMIC_METADATA: 'true',
      LIMIT_RESPONSE_HEADERS_ENABLED: 'true',
    },
  })
}

/** A valid request gets the right response, the log holds client errors only, and the service ends in order. */
export async function expectUnharmed(service: RunningService): Promise<void> {
  const body = { domain: 'fuzz', descriptors: [{ entries: [{ key: 'afterwards', value: '' }] }] }
  const statuses: number[] = []
  for (let i = 0; i < 4; i++) statuses.push((await postJson(service, body)).status)
  expect(statuses).toEqual([200, 200, 429, 429])
  expect((await fetch(`${service.http}/healthcheck`)).status).toBe(200)
  const { code, log } = await service.stop()
  expect(code).toBe(0)
  const unexpected = log.split('\n').filter((line) => line !== '' && !EXPECTED.test(line))
  expect(unexpected.filter((line) => !/level=(info|debug)/.test(line))).toEqual([])
  expect(log).not.toMatch(/level=(error|fatal)|threw|defect|ended:/)
}
